"""Competitors of each pair according to a searcher: the pair's own score and the best other documents."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyir.detection.collection import EncodedCollection, unnamed
from noisyir.detection.combine import Scores
from noisyir.detection.synthetic import References
from noisyir.retrieval.numpy_bm25 import NumpyBm25
from noisyir.training.batches import NumberedPairs, Rows, is_known

_PAIRS_AT_ONCE = 4096
_ROUNDING = 1e-6  # relative to norms of 1 and more: closer scores are ties


@dataclass(frozen=True)
class Competitors:
    """Pairs with their best alternatives; similarities are the searcher's scores, in its unit.

    Attributes:
        own: Similarity of the pair's own document.
        made_up: Similarities of the wrong documents made up for the pair (`References.tried`).
        rank: Rank of the pair's own document, with ties counted against it; 0 if it is below the search depth.
        rows: (pair, k) the best other documents, best first; -1 if there are no more.
        similarities: (pair, k) their similarities.
    """

    own: Float[np.ndarray, " pair"]
    made_up: Float[np.ndarray, "pair draw"]
    rank: Int[np.ndarray, " pair"]
    rows: Int[np.ndarray, "pair k"]
    similarities: Float[np.ndarray, "pair k"]
    depth: int

    def margins(self, wrong: References) -> Scores:
        """Best other similarity minus the pair's own, and minus each made-up document's.

        Above 0 the searcher would pair the query differently. For a made-up document, the pair's own counts as another,
        too.
        """
        best = np.where(self.rows[:, 0] >= 0, self.similarities[:, 0], 0.0)
        best_of_all = np.maximum(best, self.own)
        return Scores(best - self.own, wrong.by_null(best_of_all[:, None] - self.made_up))

    def log_rank(self) -> Float[np.ndarray, " pair"]:
        """Natural logarithm of the own document's rank, or of depth + 1 if unknown: the consistency filter's quantity.

        Source: the filter of Dai et al. (Promptagator), ICLR 2023, section 3.2, which keeps rank 1.
        """
        known: Float[np.ndarray, " pair"] = np.log(np.where(self.rank > 0, self.rank, self.depth + 1))
        return known


def merged(parts: Sequence[tuple[Rows, Competitors]]) -> Competitors:
    """Merge competitors of subsets of the pairs, each given as (pair numbers, competitors)."""
    order = np.argsort(np.concatenate([chosen for chosen, _ in parts]), kind="stable")
    names = ("own", "made_up", "rank", "rows", "similarities")
    columns = {name: np.concatenate([getattr(found, name) for _, found in parts])[order] for name in names}
    return Competitors(**columns, depth=parts[0][1].depth)


def dense_competitors(
    collection: EncodedCollection, pairs: NumberedPairs, chosen: Rows, *, keep: int, depth: int, wrong: References
) -> Competitors:
    """Find competitors of the pairs numbered `chosen` by exact inner product over all passages, up to `depth`.

    Excludes the pair's own document and those named by other pairs of its query text.
    """
    tried = np.column_stack([pairs.passage[chosen], wrong.tried(pairs.passage[chosen])])
    most_known = int(np.diff(pairs.known.offsets).max(initial=0))
    found = []
    for start in range(0, len(chosen), _PAIRS_AT_ONCE):
        rows, some = chosen[start : start + _PAIRS_AT_ONCE], tried[start : start + _PAIRS_AT_ONCE]
        asked = collection.queries[pairs.query[rows]]
        hits, scores = collection.search(asked, depth + most_known)
        similarities = collection.similarities(asked, some)
        rank = rank_within(some[:, 0], hits, _but_itself(pairs, rows, hits, scores), depth)
        found.append((similarities[:, 0], similarities[:, 1:], rank, *best_others(pairs, rows, hits, scores, keep)))
    own, made_up, rank, competitors, similarities = (np.concatenate(column) for column in zip(*found, strict=True))
    return Competitors(own, made_up, rank, competitors, similarities, depth)


def _but_itself(
    pairs: NumberedPairs, rows: Rows, hits: Int[np.ndarray, "pair hit"], scores: Float[np.ndarray, "pair hit"]
) -> Float[np.ndarray, "pair hit"]:
    """The scores, minus infinity for hits that are the query itself and not the pair's document."""
    if pairs.itself is None:
        return scores
    texts = np.repeat(pairs.text[pairs.query[rows]], hits.shape[1])
    itself = is_known(pairs.itself, texts, hits.ravel()).reshape(hits.shape) & (hits != pairs.passage[rows][:, None])
    return np.where(itself, -np.inf, scores)


def rank_within(
    owns: Rows, hits: Int[np.ndarray, "pair hit"], scores: Float[np.ndarray, "pair hit"], depth: int
) -> Int[np.ndarray, " pair"]:
    """Rank of each pair's own document among its hits, ties counted against it; 0 if below `depth`."""
    is_own = hits == owns[:, None]
    own = np.where(is_own, scores, -np.inf).max(axis=1, keepdims=True)
    rank = (scores >= own - _ROUNDING * np.maximum(1.0, np.abs(own))).sum(axis=1)
    return np.where(is_own.any(axis=1) & (rank <= depth), rank, 0)


def best_others(
    pairs: NumberedPairs,
    rows: Rows,
    hits: Int[np.ndarray, "pair hit"],
    scores: Float[np.ndarray, "pair hit"],
    keep: int,
) -> tuple[Int[np.ndarray, "pair k"], Float[np.ndarray, "pair k"]]:
    """Select each pair's first `keep` hits that no pair of its query text names, with their scores."""
    kept, order = unnamed(pairs.known, pairs.text[pairs.query[rows]], hits, keep)
    return kept, np.where(kept < 0, 0.0, np.take_along_axis(scores, order, axis=1)).astype(np.float32)


def lexical_competitors(
    searcher: NumpyBm25,
    texts: list[str],
    row_of: Rows,
    pairs: NumberedPairs,
    chosen: Rows,
    *,
    keep: int,
    wrong: References,
) -> Competitors:
    """Like `dense_competitors`, but by BM25 over the whole collection, with every passage ranked.

    Args:
        texts: Text of each query.
        row_of: For each of the searcher's documents, the passage that represents its text.
    """
    distinct, first = np.unique(row_of, return_index=True)  # copies are not searched
    reach = min(keep + int(np.diff(pairs.known.offsets).max(initial=0)), len(distinct))
    owns = pairs.passage[chosen]
    tried = np.searchsorted(distinct, np.column_stack([owns, wrong.tried(owns)]))
    own = np.zeros(tried.shape, np.float32)
    rank = np.zeros(len(chosen), np.int64)
    hits = np.full((len(chosen), reach), -1, np.int64)
    scores = np.zeros((len(chosen), reach), np.float32)
    for number, pair in enumerate(chosen):
        found = searcher.scores(texts[pairs.query[pair]])
        if found is None:
            continue
        found = found[first]
        own[number] = found[tried[number]]
        itself = np.setdiff1d(pairs.itself.of(pairs.text[pairs.query[pair]]) if pairs.itself else (), owns[number])
        above = (found >= own[number, 0]).sum() - (found[np.searchsorted(distinct, itself)] >= own[number, 0]).sum()
        rank[number] = int(above) if own[number, 0] > 0 else 0
        best = np.argpartition(-found, reach - 1)[:reach]
        best = best[np.lexsort((best, -found[best]))]
        best = best[found[best] > 0]
        hits[number, : len(best)], scores[number, : len(best)] = distinct[best], found[best]
    competitors, similarities = best_others(pairs, chosen, hits, scores, keep)
    return Competitors(own[:, 0], own[:, 1:], rank, competitors, similarities, len(distinct))
