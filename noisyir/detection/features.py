"""Features for learning from a few judgements: each pair as a row of numbers on one scale."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from noisyir.retrieval.analysis import Terms, terms_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = np.ndarray

COMPONENTS = 48
_DENSE = ("cosine", "margin", "margin_of_five", "log_rank", "query_margin", "csls", "nll")
BUILT = ("words", "characters", "punctuation", "digits", "distinct_words", "lines")
_BUILT_OF_QUERY = tuple(f"query_{name}" for name in BUILT if name != "lines")
_BUILT_OF_DOCUMENT = tuple(f"document_{name}" for name in BUILT)
SHARED = ("overlap", "idf_overlap", "overlap_start", "jaccard")
_RANKED = (*_DENSE, "bm25", "bm25_share", *SHARED, *_BUILT_OF_QUERY, *_BUILT_OF_DOCUMENT)
FEATURES = (*_RANKED, *(f"component_{number}" for number in range(1, COMPONENTS + 1)))
_PRODUCT = 20.0  # scales products of unit vectors' coordinates to the size of the coordinates
_SPREAD = 0.5  # standard deviation of the first component; a rank / n has .29
_ROUNDING = 1e-9  # a smaller variance counts as 0
_BLOCK = 8192  # pairs per join of vectors
_AT_ONCE = 65_536  # pairs per comparison of terms
_START = 120  # characters: about a title, a signature or a first sentence
NEAREST = 10  # neighbours per side averaged by CSLS
_SCALE = 20.0  # scale of cosines in the likelihood, as in models trained with a temperature of .05
_CELLS_AT_ONCE = 2**23  # similarities in memory at once, 32 MiB


@dataclass(frozen=True)
class PairEvidence:
    """Pairs to describe.

    Attributes:
        query: Each pair's row of the query texts and vectors; vectors have norm 1.
        document: Each pair's row of the document texts and vectors.
        bm25: The document's score for the query.
        bm25_best: The best score in the whole collection.
    """

    query: Int[Array, " pair"]
    document: Int[Array, " pair"]
    queries: Sequence[str]
    documents: Sequence[str]
    query_vectors: Float32[Array, "query dim"]
    document_vectors: Float32[Array, "document dim"]
    bm25: Float[Array, " pair"]
    bm25_best: Float[Array, " pair"]


def pair_features(pairs: PairEvidence, *, references: int = 10_000) -> Float32[Array, "pair feature"]:
    """Compute the columns FEATURES: ranks over their number - 1/2, and principal components of the vectors.

    The result is deterministic. The sign of a column does not indicate which end is suspect.
    """
    found, at = np.empty((len(pairs.query), len(FEATURES)), np.float32), 0
    for block in _ranked(pairs, references):  # one at a time: for a million pairs a column is 8 MB
        for column in block.T:
            found[:, at] = rank_share(column)
            at += 1
    found[:, at:] = components(pairs)
    return found


def _ranked(pairs: PairEvidence, references: int) -> Iterator[Float[Array, "pair some"]]:
    """Yield the columns _RANKED in order, some at a time."""
    yield dense_columns(pairs, references)
    yield np.column_stack([pairs.bm25, pairs.bm25 / np.where(pairs.bm25_best > 0, pairs.bm25_best, 1.0)])
    yield shared_words(pairs.queries, pairs.documents, pairs.query, pairs.document)
    yield built(pairs.queries)[pairs.query, : len(_BUILT_OF_QUERY)]
    yield built(pairs.documents)[pairs.document]


def dense_columns(pairs: PairEvidence, references: int) -> Float[Array, "pair 7"]:
    """Compute the columns _DENSE: the pair's cosine, alone and relative to the best alternatives of query and document.

    csls is cross-domain similarity local scaling: twice the cosine minus the mean of the ten best others on either
    side.

    Source: Conneau et al., ICLR 2018, section 2.3 (CSLS).
    """
    found = neighbourhoods(
        pairs.query_vectors, pairs.document_vectors, pairs.query, pairs.document, references=references
    )
    csls = 2 * found.own - found.documents.mean(axis=1) - found.queries.mean(axis=1)
    return np.column_stack(
        [
            found.own,
            found.own - found.documents[:, 0],
            found.own - found.documents[:, :5].mean(axis=1),
            np.log(found.above + 1 / len(pairs.documents)),
            found.own - found.queries[:, 0],
            csls,
            found.nll,
        ]
    )


def rank_share(values: Float[Array, " pair"]) -> Float[Array, " pair"]:
    """Each value's rank divided by the number of values, minus 1/2: from -1/2 to 1/2 with mean 0; ties share a rank."""
    from scipy.stats import rankdata

    return np.asarray((rankdata(values) - 0.5) / max(len(values), 1) - 0.5)


def components(pairs: PairEvidence) -> Float32[Array, "pair 48"]:
    """Principal components of (20 q*d, d), q and d being the pair's vectors; the first has standard deviation .5.

    The others keep their proportion to it: components of low variance carry little information, and a ridge keeps them
    small. Missing vectors give zeros. The sign is set by a component's largest loading, so it depends on the pairs
    alone. q*d shows which coordinates make up the cosine: some indicate a shared subject, others a true answer.
    """
    width = 2 * pairs.document_vectors.shape[1]
    total, square = np.zeros(width), np.zeros((width, width))
    for block in _joined(pairs):
        total += block.sum(axis=0)
        square += block.T @ block
    mean = total / max(len(pairs.query), 1)
    variance, axes = np.linalg.eigh(square / max(len(pairs.query), 1) - np.outer(mean, mean))
    kept = np.argsort(-variance, kind="stable")[:COMPONENTS]
    variance, axes = variance[kept], axes[:, kept]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(kept))])
    largest = float(variance.max(initial=0.0))
    scale = _SPREAD / np.sqrt(largest) if largest > _ROUNDING else 0.0
    found = np.zeros((len(pairs.query), COMPONENTS), np.float32)
    for number, block in enumerate(_joined(pairs)):
        found[number * _BLOCK : (number + 1) * _BLOCK, : len(kept)] = (block - mean) @ (axes * scale)
    return found


def _joined(pairs: PairEvidence) -> Iterator[Float[Array, "some joined"]]:
    for start in range(0, len(pairs.query), _BLOCK):
        asked = pairs.query_vectors[pairs.query[start : start + _BLOCK]].astype(np.float64)
        held = pairs.document_vectors[pairs.document[start : start + _BLOCK]].astype(np.float64)
        yield np.column_stack([_PRODUCT * asked * held, held])


def shared_words(
    queries: Sequence[str], documents: Sequence[str], query: Int[Array, " pair"], document: Int[Array, " pair"]
) -> Float[Array, "pair 4"]:
    """Compute the columns SHARED of every pair, each in [0, 1], from distinct terms as produced by BM25's analyser.

    They are the shares of the query's terms that occur in the document, unweighted, weighted by ln(1 + (N - n + 1/2) /
    (n + 1/2)) (BM25's IDF) and within the first 120 characters; and the Jaccard index of both term sets. 0 for a query
    without terms.
    """
    every = terms_of(queries), terms_of(documents), terms_of([text[:_START] for text in documents])
    number = {term: place for place, term in enumerate(sorted(set(chain.from_iterable(of.names for of in every))))}
    asked, held, start = (_incidence(of, number) for of in every)
    found_in = np.bincount(held.indices, minlength=len(number)).tolist()
    weigh = np.array([_idf(texts, len(documents)) for texts in found_in])
    weight, terms_asked, terms_held = asked @ weigh, asked.getnnz(axis=1), held.getnnz(axis=1)
    columns = np.zeros((len(query), len(SHARED)))
    for first in range(0, len(query), _AT_ONCE):
        q, d = query[first : first + _AT_ONCE], document[first : first + _AT_ONCE]
        both, early = asked[q].multiply(held[d]).tocsr(), asked[q].multiply(start[d]).tocsr()
        common, terms = both.getnnz(axis=1), terms_asked[q]
        shares = [common, both @ weigh, early.getnnz(axis=1), common]
        of = [terms, weight[q], terms, terms + terms_held[d] - common]
        rows = columns[first : first + _AT_ONCE]
        np.divide(np.column_stack(shares), np.column_stack(of), out=rows, where=(terms > 0)[:, None])
    return columns


def _incidence(terms: Terms, number: Mapping[str, int]) -> "csr_matrix":
    """Text-by-term matrix: 1 if the text contains the term of this number, however often."""
    from scipy.sparse import csr_matrix

    ids = np.array([number[name] for name in terms.names], np.int64)[terms.ids]
    shape = len(terms.offsets) - 1, len(number)
    found = csr_matrix((np.ones(len(ids), np.int8), ids, terms.offsets), shape)
    found.sum_duplicates()
    found.data[:] = 1
    return found


def built(texts: Sequence[str]) -> Float[Array, "text 6"]:
    """Compute the columns BUILT of every text: counts, and shares of the characters or words."""
    return np.fromiter(chain.from_iterable(map(_built, texts)), np.float64).reshape(-1, len(BUILT))


def _built(text: str) -> tuple[float, ...]:
    words, size = text.split(), max(len(text), 1)
    characters = Counter(text).items()
    punctuation = sum(count for char, count in characters if not (char.isalnum() or char.isspace()))
    digits = sum(count for char, count in characters if char.isdigit())
    distinct = len(set(words)) / max(len(words), 1)
    return len(words), len(text), punctuation / size, digits / size, distinct, len(text.splitlines())


def _idf(found_in: int, count: int) -> float:
    return math.log(1 + (count - found_in + 0.5) / (found_in + 0.5))


@dataclass(frozen=True)
class Neighbourhoods:
    """Cosines of pairs and of their nearest alternatives, exact over the references.

    Attributes:
        own: Cosine of the pair.
        documents: (pair, NEAREST) cosines of the query with the best documents not paired with it, best first. If there
            are fewer, the last one is repeated; 0 if there is none.
        queries: The same for the document with queries.
        above: Share of those documents that fit the query better than the pair's own.
        nll: The pair's negative log-likelihood among them, in nats, at the scale 20.
    """

    own: Float[Array, " pair"]
    documents: Float[Array, "pair nearest"]
    queries: Float[Array, "pair nearest"]
    above: Float[Array, " pair"]
    nll: Float[Array, " pair"]


def neighbourhoods(
    query_vectors: Float32[Array, "query dim"],
    document_vectors: Float32[Array, "document dim"],
    query: Int[Array, " pair"],
    document: Int[Array, " pair"],
    *,
    references: int = 10_000,
) -> Neighbourhoods:
    """Find the pairs' neighbourhoods by exact search of each side's vectors among the other side's.

    Memory is a few blocks of 32 MiB, whatever the number of pairs.

    Args:
        query: Each pair's query row.
        document: Each pair's document row.
        references: Maximum number of evenly spaced rows searched on either side. Pairs are compared with each other, so
            it matters little that more references would include nearer ones.
    """
    own = np.empty(len(query), np.float32)
    for start in range(0, len(query), _BLOCK):
        some = slice(start, start + _BLOCK)
        own[some] = np.einsum("pd,pd->p", query_vectors[query[some]], document_vectors[document[some]])
    docs, above, others = _one_side(query_vectors, document_vectors, query, document, own, references)
    asked, _, _ = _one_side(document_vectors, query_vectors, document, query, own, references)
    nll = np.logaddexp(_SCALE * own, others) - _SCALE * own
    return Neighbourhoods(own.astype(np.float64), docs, asked, above, nll)


def _one_side(
    vectors: Array, others: Array, row: Array, paired: Array, own: Array, references: int
) -> tuple[Float[Array, "pair nearest"], Float[Array, " pair"], Float[Array, " pair"]]:
    """(best cosines of each pair's `row` among `others`, share above its own, log of the sum of exp(20 cosine))."""
    used = np.unique(np.linspace(0, len(others) - 1, min(references, len(others))).astype(np.int64))
    place = np.full(len(others), -1)
    place[used] = np.arange(len(used))
    best = np.zeros((len(row), NEAREST))
    above, total = np.zeros(len(row)), np.full(len(row), -np.inf)
    for of_pair, block, known in _blocks(vectors, others[used], row, place[paired]):
        pairs, inverse = of_pair
        best[pairs] = _best(block, known)[inverse]
        fits = np.where(known, -np.inf, block)
        count = np.maximum((~known).sum(axis=1), 1)[inverse]
        for start in range(0, len(pairs), len(block)):  # a query of many pairs must not widen the block
            some, rows = pairs[start : start + len(block)], inverse[start : start + len(block)]
            above[some] = (fits[rows] > own[some, None]).sum(axis=1) / count[start : start + len(block)]
        total[pairs] = _log_sum_exp(_SCALE * fits)[inverse] + np.log(len(others) / len(used))
    return best, above, total


def _blocks(
    vectors: Array, references: Array, row: Array, place: Array
) -> Iterator[tuple[tuple[Array, Array], Float32[Array, "row reference"], Bool[Array, "row reference"]]]:
    """Yield ((pairs, their row of the block), cosines, mask of paired entries) for blocks of rows that have pairs."""
    order = np.argsort(row, kind="stable")
    distinct, first = np.unique(row[order], return_index=True)
    ends = np.append(first, len(row))
    step = max(1, _CELLS_AT_ONCE // max(1, len(references)))
    for start in range(0, len(distinct), step):
        stop = min(start + step, len(distinct))
        pairs = order[ends[start] : ends[stop]]
        inverse = np.searchsorted(distinct[start:stop], row[pairs])
        block = vectors[distinct[start:stop]] @ references.T
        known = np.zeros(block.shape, bool)
        is_there = place[pairs] >= 0
        known[inverse[is_there], place[pairs][is_there]] = True
        yield (pairs, inverse), block, known


def _best(block: Array, known: Array) -> Float[Array, "row nearest"]:
    """Best cosines of each row among unpaired entries, best first; the last repeated, 0 if there is none."""
    fits = np.where(known, -np.inf, block)
    count = min(NEAREST, fits.shape[1])
    best = -np.sort(np.partition(-fits, count - 1, axis=1)[:, :count], axis=1)
    best = np.pad(best.astype(np.float64), ((0, 0), (0, NEAREST - count)), constant_values=-np.inf)
    last = np.maximum(np.isfinite(best).sum(axis=1) - 1, 0)
    filled = np.where(np.isfinite(best), best, best[np.arange(len(best)), last][:, None])
    return np.where(np.isfinite(filled), filled, 0.0)


def _log_sum_exp(values: Array) -> Float[Array, " row"]:
    """Log-sum-exp of each row, in place; -inf for a row without finite values."""
    top = values.max(axis=1, keepdims=True)
    top[~np.isfinite(top)] = 0.0
    values -= top
    np.exp(values, out=values)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values.sum(axis=1)) + top[:, 0], np.float64)
