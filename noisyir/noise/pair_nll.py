"""The pair loss by which noisy pair correction tells right pairs from wrong ones, over a whole training set.

Source: Zhang et al., Findings of EMNLP 2023, Eq. 3, where it is called perplexity; it is a negative log-likelihood,
in nats.  The negatives are in-batch and easy; the same number for every pair, whatever the size of the last batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.tokens import Side, Tokens
from noisyir.training.batches import Rows, TrainingPairs, draw_negatives, known_columns
from noisyir.training.validation import embed_all

Statistic = Callable[[Float[Tensor, "query passage"], Int[Tensor, " query"], Bool[Tensor, "query passage"]], Tensor]
Scored = Float[np.ndarray, " pair"]


@dataclass(frozen=True)
class InBatch:
    """How pairs are scored against each other: `size` at a time, over `shuffles` orders, with `hard` mined negatives.

    statistic: `pair_nll` or `log_rank` of scaled similarities, the positive's column and the ignored entries.
    """

    size: int
    shuffles: int
    scale: float
    statistic: Statistic
    hard: int = 0


def score_in_batch(
    encoder: BiEncoder, pairs: TrainingPairs, chosen: Rows, how: InBatch, rng: np.random.Generator
) -> tuple[Scored, Scored]:
    """(score, null score) of the pairs numbered `chosen`, in that order, each a mean over the shuffles.

    The null score is the statistic of the same query with another pair's document in the place of its own, which is
    left out: what the score of a wrong pair looks like.
    """
    encoder.eval()
    named = np.arange(len(pairs.passages)) if how.hard else np.unique(pairs.passage[chosen])
    queries = embed_used(encoder, pairs.queries, np.unique(pairs.query[chosen]), "query")
    vectors = queries, embed_used(encoder, pairs.passages, named, "passage")
    totals = np.zeros((2, len(chosen)), np.float64)
    for _ in range(how.shuffles):
        negatives = draw_negatives(pairs, how.hard, rng)
        for places, fresh in _batches(len(chosen), how.size, rng):
            rows = chosen[places]
            found = _score_batch(pairs, vectors, rows, negatives[rows], how, rng)
            totals[:, places[:fresh]] += found[:, :fresh]
    score, null_score = (totals / how.shuffles).astype(np.float32)
    return score, null_score


def log_rank(
    scores: Float[Tensor, "query passage"], positive: Int[Tensor, " query"], ignored: Bool[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """Ln of the positive's rank among the passages of its row, ties counted against it: 0 when it is first.

    The ranking view of confident learning (Northcutt et al., JAIR 2021): how many labels the model prefers.
    """
    own = scores.gather(1, positive.unsqueeze(1))
    return torch.log(((scores >= own) & ~ignored).sum(dim=1).clamp(min=1).float())


def _batches(count: int, size: int, rng: np.random.Generator) -> Iterator[tuple[Rows, int]]:
    """Batches of a shuffle, all of one size: the last is filled up with pairs from the first; and how many are fresh."""
    order = rng.permutation(count)
    size = min(size, count)
    for start in range(0, count, size):
        fresh = order[start : start + size]
        yield np.concatenate([fresh, order[: size - len(fresh)]]), len(fresh)


def embed_used(encoder: BiEncoder, tokens: Tokens, used: Rows, side: Side) -> Float[Tensor, "text dim"]:
    """Vectors of the texts numbered `used` at their row numbers; the other rows are zero."""
    vectors = torch.zeros(len(tokens), encoder.dim, device=encoder.device)
    vectors[torch.from_numpy(used)] = embed_all(encoder, tokens.take(used), side)
    return vectors


@torch.no_grad()
def _score_batch(
    pairs: TrainingPairs,
    vectors: tuple[Tensor, Tensor],
    rows: Rows,
    negatives: Rows,
    how: InBatch,
    rng: np.random.Generator,
) -> Float[np.ndarray, "2 pair"]:
    """Both statistics of one batch of pairs."""
    own, count = pairs.passage[rows], len(rows)
    columns = np.concatenate([own, negatives.ravel()])
    known = known_columns(pairs.known, pairs.text[pairs.query[rows]], columns)
    queries, passages = vectors
    scores = how.scale * queries[pairs.query[rows]] @ passages[columns].T
    diagonal = np.arange(count)
    # another pair's document; where that is known to be right for the query, it is the best there is in this batch
    other = (diagonal + rng.integers(1, max(2, count))) % count
    ignored = known.copy()
    ignored[diagonal, diagonal] = False
    null_ignored = known | (columns[None, :] == own[:, None])
    null_ignored[diagonal, other] = False
    device = scores.device
    statistics = [
        how.statistic(scores, torch.from_numpy(positive).to(device), torch.from_numpy(mask).to(device))
        for positive, mask in ((diagonal, ignored), (other, null_ignored))
    ]
    return torch.stack(statistics).cpu().numpy()
