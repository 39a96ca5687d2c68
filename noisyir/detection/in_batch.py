"""The pair loss by which noisy pair correction separates right from wrong pairs, over a whole training set.

Source: Zhang et al., Findings of EMNLP 2023, Eq. 3, where it is called perplexity; it is a negative log-likelihood, in
nats. The negatives are in-batch and easy, and equal in number for every pair, whatever the size of the last batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.text_tokenizer import Side, Tokens
from noisyir.training.batches import Rows, TrainingPairs, draw_negatives, known_columns
from noisyir.training.validation import embed_all

Statistic = Callable[[Float[Tensor, "query passage"], Int[Tensor, " query"], Bool[Tensor, "query passage"]], Tensor]


@dataclass(frozen=True)
class InBatch:
    """How pairs are scored against each other: batches of `size`, over `shuffles` orders, with `hard` mined negatives.

    Attributes:
        statistic: `pair_nll` or `log_rank`, called with scaled similarities, the positive's column and the ignored
            entries.
    """

    size: int
    shuffles: int
    scale: float
    statistic: Statistic
    hard: int = 0


def score_in_batch(
    encoder: BiEncoder,
    pairs: TrainingPairs,
    chosen: Rows,
    how: InBatch,
    rng: np.random.Generator,
    stand_ins: Sequence[Rows] = (),
) -> Float[np.ndarray, "kind pair"]:
    """Score the pairs numbered `chosen`, in that order, as means over the shuffles.

    Args:
        stand_ins: Passages, one per chosen pair, scored in place of its own; each array gives a row of the result.
    """
    encoder.eval()
    named = np.arange(len(pairs.passages)) if how.hard else np.unique([pairs.passage[chosen], *stand_ins])
    queries = embed_used(encoder, pairs.queries, np.unique(pairs.query[chosen]), "query")
    vectors = queries, embed_used(encoder, pairs.passages, named, "passage")
    tried = np.stack([pairs.passage[chosen], *stand_ins])
    totals = np.zeros(tried.shape, np.float64)
    for _ in range(how.shuffles):
        negatives = draw_negatives(pairs, how.hard, rng)
        for places, fresh in _batches(len(chosen), how.size, rng):
            rows = chosen[places]
            found = _score_batch(pairs, vectors, rows, negatives[rows], how, tried[:, places])
            totals[:, places[:fresh]] += found[:, :fresh]
    return (totals / how.shuffles).astype(np.float32)


def log_rank(
    scores: Float[Tensor, "query passage"], positive: Int[Tensor, " query"], ignored: Bool[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """Natural logarithm of the positive's rank among the passages of its row, ties counted against it; 0 if first.

    The ranking view of confident learning (Northcutt et al., JAIR 2021): how many labels the model prefers.
    """
    own = scores.gather(1, positive.unsqueeze(1))
    return torch.log(((scores >= own) & ~ignored).sum(dim=1).clamp(min=1).float())


def _batches(count: int, size: int, rng: np.random.Generator) -> Iterator[tuple[Rows, int]]:
    """Yield batches of a shuffle with their number of fresh pairs; the last is filled up from the first."""
    order = rng.permutation(count)
    size = min(size, count)
    for start in range(0, count, size):
        fresh = order[start : start + size]
        yield np.concatenate([fresh, order[: size - len(fresh)]]), len(fresh)


@torch.no_grad()
def embed_used(encoder: BiEncoder, tokens: Tokens, used: Rows, side: Side) -> Float[Tensor, "text dim"]:
    """Embed the texts numbered `used` at their row numbers; the other rows are zero."""
    if len(used) == len(tokens):
        return embed_all(encoder, tokens, side)
    vectors = torch.zeros(len(tokens), encoder.dim, device=encoder.device)
    vectors[torch.from_numpy(used)] = embed_all(encoder, tokens.take(used), side)
    return vectors


@torch.no_grad()
def _score_batch(
    pairs: TrainingPairs, vectors: tuple[Tensor, Tensor], rows: Rows, negatives: Rows, how: InBatch, tried: Rows
) -> Float[np.ndarray, "kind pair"]:
    """Statistic of each pair of a batch with each of the passages `tried` (kind, pair) in place of its own.

    Passages known to be right for the query, and copies of the passage tried, are ignored.
    """
    columns = np.concatenate([pairs.passage[rows], negatives.ravel()])
    diagonal = np.arange(len(rows))
    known = known_columns(pairs.known, pairs.text[pairs.query[rows]], columns)
    queries, passages = vectors[0][pairs.query[rows]], vectors[1]
    scores = how.scale * queries @ passages[columns].T
    place = torch.from_numpy(diagonal).to(scores.device)
    statistics = []
    for own in tried:
        scores[place, place] = how.scale * (queries * passages[own]).sum(dim=1)
        ignored = known | (columns == own[:, None])
        ignored[diagonal, diagonal] = False
        statistics.append(how.statistic(scores, place, torch.from_numpy(ignored).to(scores.device)))
    return torch.stack(statistics).cpu().numpy()
