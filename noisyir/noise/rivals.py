"""What a searcher would pair instead: for every pair its own score, and the best other documents of the collection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyir.models.bi_encoder import BiEncoder
from noisyir.noise.pair_nll import embed_used
from noisyir.retrieval.numpy_bm25 import NumpyBm25
from noisyir.training.batches import Rows, TrainingPairs, is_known
from noisyir.training.validation import embed_all

_QUERIES_AT_ONCE = 4096


@dataclass(frozen=True)
class Rivals:
    """Pairs beside what else there is.  Similarities are the searcher's scores, in its unit.

    own, null: of the pair's own document, and of the document of another pair, drawn at random.
    rank: of the pair's own document, ties counted against it; 0 where it lies deeper than the search went.
    depth: how deep that was.
    rows, similarities: (pair, k) the best other documents, best first; rows are -1 where there are no more.
    """

    own: Float[np.ndarray, " pair"]
    null: Float[np.ndarray, " pair"]
    rank: Int[np.ndarray, " pair"]
    rows: Int[np.ndarray, "pair k"]
    similarities: Float[np.ndarray, "pair k"]
    depth: int

    def margin(self, own: Float[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
        """Best other similarity minus `own`: above 0 where the searcher would pair the query otherwise."""
        return np.where(self.rows[:, 0] >= 0, self.similarities[:, 0], 0.0) - own

    def log_rank(self) -> Float[np.ndarray, " pair"]:
        """Ln of the own document's rank, of depth + 1 where it is not known: the consistency filter's quantity.

        Source: the filter of Dai et al. (Promptagator), ICLR 2023, section 3.2, which keeps rank 1.
        """
        known: Float[np.ndarray, " pair"] = np.log(np.where(self.rank > 0, self.rank, self.depth + 1))
        return known


def merged(parts: Sequence[tuple[Rows, Rivals]]) -> Rivals:
    """The rivals of all pairs from those of some pairs each: (their numbers, theirs)."""
    order = np.argsort(np.concatenate([chosen for chosen, _ in parts]), kind="stable")
    names = ("own", "null", "rank", "rows", "similarities")
    columns = {name: np.concatenate([getattr(found, name) for _, found in parts])[order] for name in names}
    return Rivals(**columns, depth=parts[0][1].depth)


def dense_rivals(
    encoder: BiEncoder, pairs: TrainingPairs, same: Rows, chosen: Rows, *, keep: int, depth: int, null_of: Rows
) -> Rivals:
    """Rivals of the pairs numbered `chosen` by exact inner product over all passages, `depth` deep.

    same: the row that stands for each passage's text; copies are not searched.  null_of: for each chosen pair the pair
    whose document is its null.  Left out are the pair's own document and what other pairs of its query text name.
    """
    import faiss

    queries = embed_used(encoder, pairs.queries, np.unique(pairs.query[chosen]), "query").cpu().numpy()
    distinct = np.unique(same)
    vectors = np.zeros((len(same), encoder.dim), np.float32)
    vectors[distinct] = embed_all(encoder, pairs.passages.take(distinct), "passage").cpu().numpy()
    index = faiss.IndexFlatIP(encoder.dim)
    index.add(vectors[distinct])
    most_known = int(np.diff(pairs.known.offsets).max(initial=0))
    reach = min(depth + most_known, len(distinct))
    found = []
    for start in range(0, len(chosen), _QUERIES_AT_ONCE):
        rows = chosen[start : start + _QUERIES_AT_ONCE]
        asked, owns = queries[pairs.query[rows]], pairs.passage[rows]
        nulls = pairs.passage[null_of[start : start + _QUERIES_AT_ONCE]]
        own = np.einsum("pd,pd->p", asked, vectors[owns])
        null = np.einsum("pd,pd->p", asked, vectors[nulls])
        scores, places = index.search(asked, reach)
        hits = distinct[places]
        rank = np.where((hits == owns[:, None]).any(axis=1), (scores >= own[:, None] - 1e-6).sum(axis=1), 0)
        found.append((own, null, rank, *best_others(pairs, rows, hits, scores, keep)))
    own, null, rank, rivals, similarities = (np.concatenate(column) for column in zip(*found, strict=True))
    return Rivals(own, null, rank, rivals, similarities, depth)


def best_others(
    pairs: TrainingPairs,
    rows: Rows,
    hits: Int[np.ndarray, "pair hit"],
    scores: Float[np.ndarray, "pair hit"],
    keep: int,
) -> tuple[Int[np.ndarray, "pair k"], Float[np.ndarray, "pair k"]]:
    """The first `keep` hits of each pair that no pair of its query text names, and their scores."""
    text = np.repeat(pairs.text[pairs.query[rows]], hits.shape[1])
    barred = is_known(pairs.known, text, hits.ravel()).reshape(hits.shape) | (hits < 0)
    order = np.argsort(barred, axis=1, kind="stable")[:, :keep]
    barred = np.take_along_axis(barred, order, axis=1)
    kept = np.where(barred, -1, np.take_along_axis(hits, order, axis=1))
    return kept, np.where(barred, 0.0, np.take_along_axis(scores, order, axis=1)).astype(np.float32)


def lexical_rivals(
    searcher: NumpyBm25, texts: list[str], row_of: Rows, pairs: TrainingPairs, chosen: Rows, *, keep: int, null_of: Rows
) -> Rivals:
    """As `dense_rivals`, by BM25 over the whole collection.

    texts: of each query.  row_of: for each of the searcher's documents the passage that stands for its text.
    """
    place = np.full(int(row_of.max(initial=0)) + 1, -1, np.int64)
    place[row_of[::-1]] = np.arange(len(row_of))[::-1]  # of several copies the first
    reach = keep + 1 + int(np.diff(pairs.known.offsets).max(initial=0))
    own, null, rank = (
        np.zeros(len(chosen), np.float32),
        np.zeros(len(chosen), np.float32),
        np.zeros(len(chosen), np.int64),
    )
    hits = np.full((len(chosen), reach), -1, np.int64)
    scores = np.zeros((len(chosen), reach), np.float32)
    for number, pair in enumerate(chosen):
        found = searcher.scores(texts[pairs.query[pair]])
        if found is None:
            continue
        own[number], null[number] = found[place[pairs.passage[[pair, null_of[number]]]]]
        rank[number] = int((found >= own[number]).sum()) if own[number] > 0 else 0
        best = np.argpartition(-found, min(reach, len(found)) - 1)[:reach]
        best = best[np.lexsort((best, -found[best]))]
        best = best[found[best] > 0]
        hits[number, : len(best)], scores[number, : len(best)] = row_of[best], found[best]
    return Rivals(own, null, rank, *best_others(pairs, chosen, hits, scores, keep), len(row_of))
