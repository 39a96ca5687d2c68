"""From the training pairs to what the ensemble judges, and from what it found to scores, competitors and features."""

from functools import partial

import numpy as np

from noisyir.detection.combine import Scores
from noisyir.detection.competitors import Competitors
from noisyir.detection.detectors import DetectorOutput, PairsToScore
from noisyir.detection.ensemble import EnsembleInputs, EnsembleResult
from noisyir.detection.features import PairEvidence, pair_features
from noisyir.detection.hybrid import SearchSizes
from noisyir.detection.lexical import words
from noisyir.detection.null import Positions
from noisyir.detection.synthetic import random_documents
from noisyir.retrieval.numpy_bm25 import NumpyBm25
from noisyir.training.batches import Ragged

Texts = tuple[list[str], list[str]]

_KEPT = 5  # competitors found for a pair
_CELLS = 400_000_000  # (pair, reference) that features look at
_REFERENCES = 20_000


def judging_of(given: PairsToScore, k1: float, b: float, depth: int, neighbours: int) -> tuple[EnsembleInputs, Texts]:
    """The pairs with their texts and documents by position, and the texts of these."""
    assert given.lexical_index is not None
    pairs = given.pairs
    rows = np.unique(given.documents.same)
    of_text = np.unique(pairs.text, return_index=True)[1]
    read = given.read_documents()
    texts = [given.query_texts[row] for row in of_text], [read[row] for row in rows]
    searcher = NumpyBm25(given.lexical_index / "bm25s", k1=k1, b=b)
    place = np.empty(len(given.documents.numbering), np.int64)
    place[given.documents.numbering.rows(searcher.doc_ids)] = np.arange(len(place))
    own = np.searchsorted(rows, pairs.passage)
    random = given.wrong.nulls["random"]
    for_scale = random_documents(pairs, random.shape[1], partial(given.rng, "for_scale"))
    positions = Positions(
        text=pairs.text[pairs.query],
        own=own,
        known=Ragged(pairs.known.offsets, np.searchsorted(rows, pairs.known.values)),
        source=given.read_sources()[rows],
    )
    judging = EnsembleInputs(
        positions=positions,
        words=words(searcher, texts[0], place[rows]),
        random=_positions(rows, random),
        for_scale=_positions(rows, for_scale),
        sought=SearchSizes(depth, _KEPT, neighbours, random.shape[1]),
        rng=partial(given.rng, "ensemble"),
        progress=given.progress,
    )
    return judging, texts


def scored(given: PairsToScore, judging: EnsembleInputs, judged: EnsembleResult, texts: Texts) -> DetectorOutput:
    """Findings by the rows of documents: scores are minus fits."""
    found, rows = judged.found, np.unique(given.documents.same)
    competitors = Competitors(
        own=found.own,
        made_up=np.concatenate(list(found.nulls.values()), axis=1),
        rank=found.rank,
        rows=np.where(found.others >= 0, rows[np.maximum(found.others, 0)], -1),
        similarities=found.fits,
        depth=judging.sought.depth,
    )
    scores = Scores(-found.own, {null: -fits for null, fits in found.nulls.items()})
    return DetectorOutput(scores, competitors, _features(judging, judged, texts), reading=reading_of(judged))


def reading_of(judged: EnsembleResult) -> str:
    """The texts that the ensemble read, in one sentence."""
    pairs = len(judged.found.own)
    if judged.read is None:
        return f"no transformer read the {pairs:,} pairs: they are ordered by static vectors and words"
    if judged.read.all():
        return f"the transformer read all {pairs:,} pairs"
    return (
        f"the transformer read {judged.read.sum():,} of {pairs:,} pairs, the most doubtful and a random tenth; what "
        "the nulls say rests on static vectors and words, which all pairs have"
    )


def _features(judging: EnsembleInputs, judged: EnsembleResult, texts: Texts) -> np.ndarray:
    positions, found = judging.positions, judged.found
    evidence = PairEvidence(
        query=positions.text,
        document=positions.own,
        queries=texts[0],
        documents=texts[1],
        query_vectors=judged.queries,
        document_vectors=judged.documents,
        bm25=found.bm25,
        bm25_best=found.best,
    )
    return pair_features(evidence, references=int(np.clip(_CELLS // len(found.own), 1, _REFERENCES)))


def _positions(rows: np.ndarray, documents: np.ndarray) -> np.ndarray:
    return np.where(documents >= 0, np.searchsorted(rows, np.maximum(documents, 0)), -1)
