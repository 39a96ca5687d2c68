"""The detector `ensemble` step by step: read, look, and where not all can be read, read the doubtful first."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from noisyir.detection.cascade import imputed, reading_order, within
from noisyir.detection.combine import Scores, by_null
from noisyir.detection.fit import StaticFit, TransformerFit, combined_fit
from noisyir.detection.hybrid import Found, Searcher, Sought, search
from noisyir.detection.lexical import Words
from noisyir.detection.positions import Positions
from noisyir.detection.rate import best_fit
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.openvino_encoder import OpenVinoEncoder
from noisyir.models.tokens import Side, Tokens

Array = np.ndarray

_SAMPLE = 4096  # pairs that tell mean and spread of measures
Progress = Callable[[int, int | None, str], None]


@dataclass(frozen=True)
class Judging:
    """What the ensemble judges: pairs by position, their texts as each encoder reads them, and draws for each pair.

    random: documents of the null; for_scale: others, which a static fit is measured by; both (pair, draw), -1 for none.
    """

    positions: Positions
    words: Words
    random: Int[Array, "pair draw"]
    for_scale: Int[Array, "pair draw"]
    sought: Sought
    rng: Callable[..., np.random.Generator]
    progress: Progress

    def sample(self) -> Int[Array, " some"]:
        """At most 4,096 pairs, drawn at random."""
        count = len(self.positions.text)
        if count <= _SAMPLE:
            return np.arange(count)
        return np.sort(self.rng("sample").choice(count, _SAMPLE, replace=False))


@dataclass(frozen=True)
class Reader:
    """An encoder with the texts of all queries and documents as it reads them."""

    encoder: BiEncoder | OpenVinoEncoder
    queries: Tokens
    documents: Tokens

    @property
    def tokens(self) -> int:
        """Of all texts together."""
        return int(self.queries.lengths.sum() + self.documents.lengths.sum())

    def vectors(
        self, progress: Progress, queries: Array | None = None, documents: Array | None = None
    ) -> tuple[Float32[Array, "text dim"], Float32[Array, "document dim"]]:
        """Of all texts, or of those marked true; the others' are zero."""
        from noisyir.detection.reading import read_texts

        sides: tuple[tuple[Side, Tokens, Array | None], ...] = (
            ("query", self.queries, queries), ("passage", self.documents, documents),
        )  # fmt: skip
        asked, held = (
            read_texts(self.encoder, tokens, side, np.ones(len(tokens), bool) if marked is None else marked, progress)
            for side, tokens, marked in sides
        )
        return asked, held


@dataclass(frozen=True)
class Judged:
    """What the ensemble found.  read: which pairs the transformer read; None where there was none.

    queries, documents: the vectors that every text has.
    """

    found: Found
    read: Bool[Array, " pair"] | None
    queries: Float32[Array, "text dim"]
    documents: Float32[Array, "document dim"]


def by_transformer(judging: Judging, reader: Reader) -> Judged:
    """All texts read: `TransformerFit` for every pair and every document."""
    vectors = reader.vectors(judging.progress)
    searcher = Searcher(judging.positions, judging.words, *vectors, judging.sought.depth, static=False)
    some = judging.sample()
    fit = TransformerFit.observed(searcher.block(some), judging.positions.own[some])
    return Judged(_search(judging, searcher, fit), np.ones(len(judging.random), bool), *vectors)


def by_static(judging: Judging, reader: Reader) -> Judged:
    """Vectors from token embeddings alone: `StaticFit`."""
    vectors = reader.vectors(judging.progress)
    searcher = Searcher(judging.positions, judging.words, *vectors, judging.sought.depth, static=True)
    fit = StaticFit.observed(searcher.block(judging.sample()), judging.for_scale)
    return Judged(_search(judging, searcher, fit), None, *vectors)


def cascaded(judging: Judging, static: Reader, transformer: Reader, tokens: int) -> Judged:
    """All pairs by static vectors; the transformer reads the doubtful ones as far as `tokens` last, and some at random.

    A pair's fit is then z(static fit) + z(2 z(cosine) + z(BM25 share)), where the second is, of a pair that was not
    read, what the first lets expect.  The fit of others and of the nulls stays the static one, scaled and moved with
    the pair's own: the documents that a pair is compared with must be scored as its own is, or its rank among them
    would say nothing.
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


def _order(judging: Judging, found: Found) -> Int[Array, " pair"]:
    """In which order pairs are read."""
    scores, nulls = -found.own, {null: -fits for null, fits in found.nulls.items()}
    said = by_null(Scores(scores, nulls))
    rate = said[best_fit(said)].rate if said else 1 / 2
    return reading_order(scores, rate, judging.rng("read"))


def _fit_of_read(cosine: Float[Array, " pair"], found: Found, read: Bool[Array, " pair"]) -> Float32[Array, " pair"]:
    """z(static fit) + z(2 z(cosine) + z(BM25 share)), the latter imputed where it was not read.

    The static fit stays in the sum of pairs that were read, too: it orders those whose imputed values are equal, and
    pairs that were read would lose beside them what it knows.
    """
    share = found.bm25 / np.where(found.best > 0, found.best, 1.0)
    cheap = _z(found.own, np.ones(len(read), bool))
    fit = imputed(combined_fit(_z(cosine, read), _z(share, read)), cheap, read)
    return np.asarray(cheap + _z(fit, read), np.float32)


def _cosines(judging: Judging, reader: Reader, read: Bool[Array, " pair"]) -> Float[Array, " pair"]:
    """The transformer's cosines of the pairs that are read, 0 for the others."""
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


def _search(judging: Judging, searcher: Searcher, fit: TransformerFit | StaticFit) -> Found:
    def progress(done: int, total: int) -> None:
        judging.progress(done, total, "pairs")

    def rng(number: int) -> np.random.Generator:
        return judging.rng("source", number)

    return search(searcher, fit, judging.random, judging.sought, rng, progress)


def _z(values: Float[Array, " pair"], of: Bool[Array, " pair"]) -> Float[Array, " pair"]:
    """Standardised by mean and standard deviation over some of them; as they are where these are none, or equal."""
    deviation = float(values[of].std()) if of.any() else 0.0
    return (values - values[of].mean()) / deviation if deviation > 0 else values
