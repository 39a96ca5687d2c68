"""Steps of the detector `ensemble`: read, score and, if not everything can be read, read doubtful pairs first."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int

from noisyir.detection.combine import Scores, by_null
from noisyir.detection.competitors import Competitors
from noisyir.detection.detectors import DetectorOutput, PairsToScore
from noisyir.detection.features import PairEvidence, pair_features
from noisyir.detection.fits import StaticFit, TransformerFit, combined_fit
from noisyir.detection.hybrid import PairFits, Searcher, SearchSizes, search
from noisyir.detection.lexical import WordOverlap, words
from noisyir.detection.null import Positions
from noisyir.detection.rate import best_fit
from noisyir.detection.synthetic import random_documents
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.openvino_encoder import OpenVinoEncoder
from noisyir.models.text_tokenizer import Side, Tokens, token_batches
from noisyir.retrieval.numpy_bm25 import NumpyBm25
from noisyir.training.batches import Ragged
from noisyir.training.validation import embed_all

Array = np.ndarray

_SAMPLE = 4096  # pairs from which mean and spread of measures are estimated
Progress = Callable[[int, int | None, str], None]
_TOKENS_AT_ONCE = 8192  # on a CPU larger batches are no faster and use more memory
_AT_RANDOM = 10  # one in this many of the pairs read is drawn at random
Texts = tuple[list[str], list[str]]
_KEPT = 5  # competitors found for a pair
_CELLS = 400_000_000  # (pair, reference) cells computed for features
_REFERENCES = 20_000


@dataclass(frozen=True)
class EnsembleInputs:
    """Pairs by position, their texts as tokenised by each encoder, and draws for each pair.

    Attributes:
        random: (pair, draw) documents of the random null; -1 for none.
        for_scale: (pair, draw) other documents that set the scale of a static fit; -1 for none.
    """

    positions: Positions
    words: WordOverlap
    random: Int[Array, "pair draw"]
    for_scale: Int[Array, "pair draw"]
    sought: SearchSizes
    rng: Callable[..., np.random.Generator]
    progress: Progress

    def sample(self) -> Int[Array, " some"]:
        """Draw at most 4,096 pairs at random."""
        count = len(self.positions.text)
        if count <= _SAMPLE:
            return np.arange(count)
        return np.sort(self.rng("sample").choice(count, _SAMPLE, replace=False))


@dataclass(frozen=True)
class EncodedTexts:
    """An encoder with the texts of all queries and documents as tokenised for it."""

    encoder: BiEncoder | OpenVinoEncoder
    queries: Tokens
    documents: Tokens

    @property
    def tokens(self) -> int:
        """Number of tokens of all texts together."""
        return int(self.queries.lengths.sum() + self.documents.lengths.sum())

    def vectors(
        self, progress: Progress, queries: Array | None = None, documents: Array | None = None
    ) -> tuple[Float32[Array, "text dim"], Float32[Array, "document dim"]]:
        """Embed all texts, or those marked true; the vectors of the others are zero."""
        sides: tuple[tuple[Side, Tokens, Array | None], ...] = (
            ("query", self.queries, queries), ("passage", self.documents, documents),
        )  # fmt: skip
        asked, held = (
            read_texts(self.encoder, tokens, side, np.ones(len(tokens), bool) if marked is None else marked, progress)
            for side, tokens, marked in sides
        )
        return asked, held


@dataclass(frozen=True)
class EnsembleResult:
    """Results of the ensemble.

    Attributes:
        read: Whether the transformer read each pair; None if there was no transformer.
    """

    found: PairFits
    read: Bool[Array, " pair"] | None
    queries: Float32[Array, "text dim"]
    documents: Float32[Array, "document dim"]


def by_transformer(judging: EnsembleInputs, reader: EncodedTexts) -> EnsembleResult:
    """Read all texts: `TransformerFit` for every pair and every document."""
    vectors = reader.vectors(judging.progress)
    searcher = Searcher(judging.positions, judging.words, *vectors, judging.sought, static=False)
    fit = TransformerFit.observed(searcher.blocks(judging.sample()), judging.positions.own)
    return EnsembleResult(_search(judging, searcher, fit), np.ones(len(judging.random), bool), *vectors)


def by_static(judging: EnsembleInputs, reader: EncodedTexts) -> EnsembleResult:
    """Use vectors of token embeddings alone: `StaticFit`."""
    vectors = reader.vectors(judging.progress)
    searcher = Searcher(judging.positions, judging.words, *vectors, judging.sought, static=True)
    fit = StaticFit.observed(searcher.blocks(judging.sample()), judging.for_scale)
    return EnsembleResult(_search(judging, searcher, fit), None, *vectors)


def cascaded(judging: EnsembleInputs, static: EncodedTexts, transformer: EncodedTexts, tokens: int) -> EnsembleResult:
    """Score all pairs by static vectors; the transformer reads doubtful pairs, and some at random, within `tokens`.

    A pair's fit is then z(static fit) + z(2 z(cosine) + z(BM25 share)), where the second term of an unread pair is its
    expectation given the first. The fits of other documents and of the nulls stay static, scaled and shifted with the
    pair's own: a pair's rank is meaningful only if its competitors are scored as its own document is.
    """
    cheap = by_static(judging, static)
    found, positions = cheap.found, judging.positions
    order = _order(judging, found)
    lengths = transformer.queries.lengths, transformer.documents.lengths
    read = within(order, positions.text, positions.own, *lengths, tokens)
    cosine = _cosines(judging, transformer, read)
    own = _fit_of_read(cosine, found, read)
    scale = own.std() / max(float(found.own.std()), 1e-12)

    def beside(fits: Float32[Array, "pair some"]) -> Float32[Array, "pair some"]:
        return np.asarray(own[:, None] + scale * (fits - found.own[:, None]), np.float32)

    nulls = {null: beside(fits) for null, fits in found.nulls.items()}
    fits = np.where(found.others >= 0, beside(found.fits), 0.0).astype(np.float32)
    return replace(cheap, found=replace(found, own=own, fits=fits, nulls=nulls), read=read)


def _order(judging: EnsembleInputs, found: PairFits) -> Int[Array, " pair"]:
    scores, nulls = -found.own, {null: -fits for null, fits in found.nulls.items()}
    said = by_null(Scores(scores, nulls))
    rate = said[best_fit(said)].rate if said else 1 / 2
    return reading_order(scores, rate, judging.rng("read"))


def _fit_of_read(cosine: Float[Array, " pair"], found: PairFits, read: Bool[Array, " pair"]) -> Float32[Array, " pair"]:
    """Compute z(static fit) + z(2 z(cosine) + z(BM25 share)), with the latter imputed for unread pairs.

    The static fit stays in the sum for pairs that were read, too: it breaks ties among imputed values, and without it
    pairs that were read would lose its information relative to those.
    """
    share = found.bm25 / np.where(found.best > 0, found.best, 1.0)
    cheap = _z(found.own, np.ones(len(read), bool))
    fit = imputed(combined_fit(_z(cosine, read), _z(share, read)), cheap, read)
    return np.asarray(cheap + _z(fit, read), np.float32)


def _cosines(judging: EnsembleInputs, reader: EncodedTexts, read: Bool[Array, " pair"]) -> Float[Array, " pair"]:
    """The transformer's cosines of the pairs read; 0 for the others."""
    text, own = judging.positions.text, judging.positions.own
    asked = np.zeros(len(reader.queries), bool)
    held = np.zeros(len(reader.documents), bool)
    asked[text[read]], held[own[read]] = True, True
    queries, documents = reader.vectors(judging.progress, asked, held)
    cosine = np.zeros(len(text))
    rows = np.flatnonzero(read)
    for some in np.array_split(rows, max(1, len(rows) // 65536)):
        cosine[some] = np.einsum("pd,pd->p", queries[text[some]], documents[own[some]])
    return cosine


def _search(judging: EnsembleInputs, searcher: Searcher, fit: TransformerFit | StaticFit) -> PairFits:
    def progress(done: int, total: int) -> None:
        judging.progress(done, total, "pairs")

    def rng(number: int) -> np.random.Generator:
        return judging.rng("source", number)

    return search(searcher, fit, judging.random, judging.sought, rng, progress)


def _z(values: Float[Array, " pair"], of: Bool[Array, " pair"]) -> Float[Array, " pair"]:
    """Standardise by mean and standard deviation of a subset; unchanged if the subset is empty or constant."""
    deviation = float(values[of].std()) if of.any() else 0.0
    return (values - values[of].mean()) / deviation if deviation > 0 else values


@torch.no_grad()
def read_texts(
    encoder: BiEncoder | OpenVinoEncoder,
    tokens: Tokens,
    side: Side,
    wanted: Bool[Array, " text"],
    progress: Callable[[int, int | None, str], None],
) -> Float32[Array, "text dim"]:
    """Embed the wanted texts, longest first; a transformer's vectors of the others are zero."""
    if isinstance(encoder, BiEncoder):
        encoder.eval()
        if not encoder.transformers:  # fast enough to read all
            return np.asarray(embed_all(encoder, tokens, side).cpu().numpy())
    vectors = np.zeros((len(tokens), encoder.dim), np.float32)
    rows = np.flatnonzero(wanted)
    done = 0
    for batch in token_batches(tokens.lengths[rows], _TOKENS_AT_ONCE):
        some = rows[batch]
        vectors[some] = encoder.embed(tokens.take(some), side).cpu().numpy()
        done += len(some)
        progress(done, len(rows), "queries read" if side == "query" else "documents read")
    return vectors


def reading_order(scores: Float[Array, " pair"], rate: float, rng: np.random.Generator) -> Int[Array, " pair"]:
    """Order all pairs for reading: doubtful ones first, with every tenth place drawn at random.

    A pair is doubtful if its rank by the cheap score is near the cut above which a share `rate` of the pairs lies. The
    order depends only on cheap scores and chance, so the pairs read are a random choice among pairs of equal cheap
    score, and the selection does not bias what is inferred about the others (`imputed`).
    """
    size = len(scores)
    rank = np.empty(size)
    rank[np.argsort(scores, kind="stable")] = np.arange(size)
    doubtful = np.argsort(np.abs(rank - (1 - rate) * size), kind="stable")
    place = np.empty(size)
    place[doubtful] = np.arange(size) * (1 + 1 / (_AT_RANDOM - 1))  # leaves every tenth place free
    drawn = rng.permutation(size)
    place[drawn] = np.minimum(place[drawn], np.arange(size) * float(_AT_RANDOM))
    return np.argsort(place, kind="stable")


def within(
    order: Int[Array, " pair"],
    query: Int[Array, " pair"],
    document: Int[Array, " pair"],
    query_tokens: Int[Array, " query"],
    document_tokens: Int[Array, " document"],
    tokens: int,
) -> Bool[Array, " pair"]:
    """Return whether each pair is read: the first of `order` with at most `tokens` tokens in total.

    A text shared by several pairs is read once.
    """
    taken = np.zeros(len(order), np.int64)
    for side, lengths in ((query[order], query_tokens), (document[order], document_tokens)):
        used, first = np.unique(side, return_index=True)
        taken[first] += lengths[used]
    read = np.zeros(len(order), bool)
    read[order[np.cumsum(taken) <= tokens]] = True
    return read


def imputed(
    known: Float[Array, " pair"], cheap: Float[Array, " pair"], read: Bool[Array, " pair"]
) -> Float[Array, " pair"]:
    """`known` if a pair was read; otherwise its expectation given the cheap score, non-decreasing in that score.

    Uses isotonic regression over the pairs read. A selection that depends on the regressor alone needs no correction
    (missing at random: Rubin, Biometrika 1976) provided that the shape of the regression is not presumed, and the
    relation is not linear if pairs of both kinds are mixed. Expectations vary less than values, and many are equal.

    Args:
        known: Values of the pairs; arbitrary if unread.
    """
    from scipy.optimize import isotonic_regression

    if read.all() or not read.any():
        return known
    rows = np.flatnonzero(read)
    rows = rows[np.argsort(cheap[rows], kind="stable")]
    expected = isotonic_regression(known[rows]).x
    return np.where(read, known, np.interp(cheap, cheap[rows], expected))


def judging_of(given: PairsToScore, k1: float, b: float, depth: int, neighbours: int) -> tuple[EnsembleInputs, Texts]:
    """The pairs with their texts and documents by position, and the texts themselves."""
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
    """Convert results to rows of documents; scores are minus fits."""
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
    """Say in one sentence which texts the transformer left out; empty if none."""
    pairs = len(judged.found.own)
    if judged.read is None:
        return f"no transformer read the {pairs:,} pairs: they are ordered by static vectors and words"
    if judged.read.all():
        return ""
    return (
        f"the transformer read {judged.read.sum():,} of {pairs:,} pairs, the most doubtful and a random tenth; "
        "made-up pairs are scored by static vectors and words, as all pairs are"
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
