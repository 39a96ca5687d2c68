"""Pools of passages by query, scored by a model: what the sieve judges."""

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
class Pools:
    """Candidates in any order, by flat arrays, and one positive a query.

    query: each candidate's query, numbered 0 to queries - 1; document: its row among the training passages.
    text, positive: of each query, its row among the training queries and that of its positive among the passages.
    """

    query: Rows
    document: Rows
    text: Rows
    positive: Rows


def cosines(encoder: BiEncoder, pairs: TrainingPairs, pools: Pools) -> tuple[Scores, Scores]:
    """Each candidate's cosine with its query, and the mean of its pool; 0 where a text has no vector.

    encoder: one whose similarity is cosine.  Every text is encoded once, and rows are compared in blocks.
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
    """DPR's objective; what `rate` returns before each epoch is a point of the curve `sieve_out_rate`."""

    def __init__(self, rate: Callable[[], float]) -> None:
        super().__init__()
        self.rate = rate

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """How much the sieve would take out by now."""
        return {"sieve_out_rate": self.rate()}
