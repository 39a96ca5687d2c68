"""Pools of passages by query, scored by a model, as input of the sieve."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from noisyir.mining.candidates import Rows, Scores, dot_rows
from noisyir.mining.judges import pool_means
from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import TrainingPairs
from noisyir.training.learner import Contrastive
from noisyir.training.validation import embed_all

_AT_ONCE = 16384


@dataclass(frozen=True)
class SievePools:
    """Candidates in any order, as flat arrays, with one positive per query.

    Attributes:
        query: Query number of each candidate, 0 to queries - 1.
        document: Row of each candidate among the training passages.
        text: Row of each query among the training queries.
        positive: Row of each query's positive among the passages.
    """

    query: Rows
    document: Rows
    text: Rows
    positive: Rows


def cosines(encoder: BiEncoder, pairs: TrainingPairs, pools: SievePools) -> tuple[Scores, Scores]:
    """Each candidate's cosine with its query, and the mean of its pool; 0 if a text has no vector.

    Every text is encoded once, and rows are compared in blocks.
    """
    assert encoder.similarity == "cosine"
    encoder.eval()
    queries = embed_all(encoder, pairs.queries, "query").cpu().numpy()
    passages = embed_all(encoder, pairs.passages, "passage").cpu().numpy()

    def compared(query: Rows, document: Rows) -> Float[np.ndarray, " row"]:
        return dot_rows(queries, pools.text[query], passages, document, _AT_ONCE).clip(-1.0, 1.0)

    cosine = compared(pools.query, pools.document)
    return cosine, pool_means(cosine, pools.query, compared(np.arange(len(pools.text)), pools.positive))


class DprWithSieveCurve(Contrastive):
    """DPR's objective; the value of `rate` before each epoch is a point of the curve `sieve_out_rate`."""

    def __init__(self, rate: Callable[[], float]) -> None:
        super().__init__()
        self.rate = rate

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Record the share that the sieve would remove at this point."""
        return {"sieve_out_rate": self.rate()}
