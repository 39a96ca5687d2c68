"""What a few judgements may learn from: every pair as a row of numbers on one scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int

from noisyir.detection.neighbourhoods import neighbourhoods
from noisyir.detection.wording import BUILT, SHARED, built, shared_words

Array = np.ndarray

COMPONENTS = 48
_DENSE = ("cosine", "margin", "margin_of_five", "log_rank", "query_margin", "csls", "nll")
_BUILT_OF_QUERY = tuple(f"query_{name}" for name in BUILT if name != "lines")
_BUILT_OF_DOCUMENT = tuple(f"document_{name}" for name in BUILT)
_RANKED = (*_DENSE, "bm25", "bm25_share", *SHARED, *_BUILT_OF_QUERY, *_BUILT_OF_DOCUMENT)
FEATURES = (*_RANKED, *(f"component_{number}" for number in range(1, COMPONENTS + 1)))
_PRODUCT = 20.0  # brings products of unit vectors' coordinates to the size of the coordinates
_SPREAD = 0.5  # standard deviation of the first component; a rank over n has .29
_ROUNDING = 1e-9  # a variance so small is none
_BLOCK = 8192  # pairs whose vectors are joined at once


@dataclass(frozen=True)
class PairEvidence:
    """Pairs to describe.  query, document: each pair's rows of the texts and of the vectors, which have norm 1.

    bm25, bm25_best: the document's score for the query, and the best of the whole collection.
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
    """The columns FEATURES of every pair: ranks over their number - 1/2, and principal components of the vectors.

    references: see `neighbourhoods`.  The same pairs give the same matrix.  Its columns say nothing about which end is
    suspect; MissingPackageError without the extra bm25.
    """
    ranked = np.column_stack(
        [
            dense_columns(pairs, references),
            pairs.bm25,
            pairs.bm25 / np.where(pairs.bm25_best > 0, pairs.bm25_best, 1.0),
            shared_words(pairs.queries, pairs.documents, pairs.query, pairs.document),
            built(pairs.queries)[pairs.query, : len(_BUILT_OF_QUERY)],
            built(pairs.documents)[pairs.document],
        ]
    )
    columns = [rank_share(column) for column in ranked.T]
    return np.column_stack([*columns, components(pairs)]).astype(np.float32)


def dense_columns(pairs: PairEvidence, references: int) -> Float[Array, "pair 7"]:
    """The columns _DENSE: the pair's cosine, alone and against the best that query and document have elsewhere.

    csls: cross-domain similarity local scaling, twice the cosine less the mean of the ten best others on either side.
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
    """Each value's rank among all, over their number, minus 1/2: from -1/2 to 1/2 with mean 0; ties share a rank."""
    from scipy.stats import rankdata

    return np.asarray((rankdata(values) - 0.5) / max(len(values), 1) - 0.5)


def components(pairs: PairEvidence) -> Float[Array, "pair 48"]:
    """Principal components of (20 q*d, d), q and d the pair's vectors, the first one to a standard deviation of .5.

    The others keep their proportion to it: those that vary little tell little, and a ridge keeps them small.  Zeros for
    those that the vectors lack.  A component's sign is that of its largest loading: it depends on the pairs alone.
    What q*d holds is which coordinates make the cosine: some tell of a subject, others of a true answer.
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
    projected = [(block - mean) @ (axes * scale) for block in _joined(pairs)]
    found = np.concatenate([np.empty((0, len(kept))), *projected])
    return np.pad(found, ((0, 0), (0, COMPONENTS - len(kept))))


def _joined(pairs: PairEvidence) -> Iterator[Float[Array, "some joined"]]:
    for start in range(0, len(pairs.query), _BLOCK):
        asked = pairs.query_vectors[pairs.query[start : start + _BLOCK]].astype(np.float64)
        held = pairs.document_vectors[pairs.document[start : start + _BLOCK]].astype(np.float64)
        yield np.column_stack([_PRODUCT * asked * held, held])
