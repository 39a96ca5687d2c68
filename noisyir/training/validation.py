"""Validation by MRR@10 of held-out queries over a pool of passages, exactly scored."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisyir.models.at_once import inference_tokens
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.text_tokenizer import SIDES, Side, Tokens, token_batches
from noisyir.training.batches import Ragged, Rows
from noisyir.training.distributed import world

CUTOFF = 10
_QUERIES_AT_ONCE = 256
_TEXTS_AT_ONCE = 4096  # of unpadded texts


@dataclass(frozen=True)
class Held:
    """Held-out queries, the pool that they are ranked over, and each query's relevant rows of the pool."""

    queries: Tokens
    pool: Tokens
    relevant: Ragged


def dev_mrr(encoder: BiEncoder, held: Held) -> float:
    """Return the mean of the reciprocals of `dev_ranks`."""
    return mean_reciprocal(dev_ranks(encoder, held))


def mean_reciprocal(ranks: Float[Tensor, " query"]) -> float:
    """Return MRR@10."""
    values, total = reciprocal(ranks), 0.0
    for start in range(0, len(values), _QUERIES_AT_ONCE):
        total += float(values[start : start + _QUERIES_AT_ONCE].sum())
    return total / len(values)


@torch.no_grad()
def dev_ranks(encoder: BiEncoder, held: Held) -> Float[Tensor, " query"]:
    """Return the rank of each query's best-placed relevant passage, infinite without one."""
    encoder.eval()
    texts: dict[Side, Tokens] = {"query": held.queries, "passage": held.pool}
    vectors = {side: embed_all(encoder, texts[side], side) for side in SIDES}
    found = []
    for start in range(0, len(held.queries), _QUERIES_AT_ONCE):
        rows = np.arange(start, min(start + _QUERIES_AT_ONCE, len(held.queries)))
        scores = vectors["query"][rows] @ vectors["passage"].T
        found.append(best_ranks(scores, _marked(held.relevant, rows, scores)))
    return torch.cat(found)


def best_ranks(
    scores: Float[Tensor, "query passage"], relevant: Bool[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """Return the rank of each query's best relevant passage, infinite without one.

    Ties count against the query, so that a constant score earns nothing.
    """
    best = scores.masked_fill(~relevant, float("-inf")).amax(dim=1, keepdim=True)
    rank = ((scores >= best) & ~relevant).sum(dim=1) + 1
    return torch.where(relevant.any(dim=1), rank.float(), float("inf"))


def reciprocal(ranks: Float[Tensor, " query"]) -> Float[Tensor, " query"]:
    """Return 1/rank, 0 beyond rank 10."""
    return torch.where(ranks <= CUTOFF, 1.0 / ranks, 0.0)


def discounted_gains(reciprocal: Float[np.ndarray, " query"]) -> Float[np.ndarray, " query"]:
    """Return nDCG@10 from 1/rank, as if the best-placed relevant passage were the only one.

    Source: 1 / log2(1 + rank), Järvelin and Kekäläinen, TOIS 2002.
    """
    with np.errstate(divide="ignore"):  # a rank beyond all is worth nothing
        return 1 / np.log2(1 + 1 / reciprocal)


def _marked(relevant: Ragged, rows: Rows, scores: Tensor) -> Bool[Tensor, "query passage"]:
    query, passage = (torch.from_numpy(values).to(scores.device) for values in relevant.take(rows))
    marked = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    marked[query, passage] = True
    return marked


@torch.no_grad()
def embed_all(encoder: BiEncoder, tokens: Tokens, side: Side) -> Float[Tensor, "text dim"]:
    """Embed many texts in batches of a bounded number of tokens, padding included.

    All processes must call it: each embeds its share and gets all vectors.
    """
    divided = world().divide(tokens.lengths)
    own = divided.tokens(tokens)
    vectors = torch.empty(len(own), encoder.dim, device=encoder.device)
    for rows in _batches(own, inference_tokens(None, encoder.device)):
        vectors[rows] = encoder.embed(own.take(rows), side)
    return divided.gather(vectors)


def _batches(tokens: Tokens, budget: int) -> Iterable[Rows]:
    """Batch unpadded texts in order, padded ones by length with at most `budget` tokens."""
    if tokens.shares is not None:
        return np.split(np.arange(len(tokens)), range(_TEXTS_AT_ONCE, len(tokens), _TEXTS_AT_ONCE))
    return token_batches(tokens.lengths, budget)
