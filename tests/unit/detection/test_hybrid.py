"""The search by vectors and words against every fit worked out, and the cascade against reading all."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.detection import hybrid
from noisyir.detection.ensemble import EnsembleInputs, by_static, by_transformer, cascaded
from noisyir.detection.hybrid import SearchSizes
from noisyir.detection.lexical import words
from noisyir.detection.null import Positions
from noisyir.models.text_tokenizer import Tokens
from noisyir.retrieval.numpy_bm25 import NumpyBm25, build
from noisyir.training.batches import Ragged

DOCUMENTS, PAIRS, DIM = 40, 60, 8
RNG = np.random.default_rng


class Read:
    """A reader of vectors that are known; texts have three tokens each."""

    def __init__(self, queries, documents):
        self.found, self.asked = (queries, documents), []
        self.queries, self.documents = (Tokens(np.zeros(0, np.int32), 3 * np.arange(len(v) + 1)) for v in self.found)

    @property
    def tokens(self):
        return 3 * sum(map(len, self.found))

    def vectors(self, _, queries=None, documents=None):
        self.asked.append((queries, documents))
        both = zip(self.found, (queries, documents), strict=True)
        return tuple(v if marked is None else np.where(marked[:, None], v, 0) for v, marked in both)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    rng = RNG(0)
    own = rng.integers(DOCUMENTS, size=PAIRS)
    text = np.arange(PAIRS) % (PAIRS - 5)  # some texts have two pairs
    own[PAIRS - 5 :] = (own[:5] + 1) % DOCUMENTS
    documents = [" ".join(f"w{n}" for n in rng.integers(30, size=12)) for _ in range(DOCUMENTS)]
    texts = [" ".join(documents[own[t]].split()[:4]) for t in range(PAIRS - 5)]
    folder = tmp_path_factory.mktemp("bm25") / "index"
    ids = [f"{n:03d}" for n in range(DOCUMENTS)]
    build([pa.RecordBatch.from_pydict({"doc_id": ids, "title": [""] * DOCUMENTS, "text": documents})], folder)
    keys = np.unique(text * DOCUMENTS + own)
    known = Ragged.grouped(keys // DOCUMENTS, keys % DOCUMENTS, PAIRS - 5)
    judging = EnsembleInputs(
        positions=Positions(text, own, known, np.arange(DOCUMENTS) % 7),
        words=words(NumpyBm25(folder, k1=0.9, b=0.4), texts, np.arange(DOCUMENTS)),
        random=rng.integers(DOCUMENTS, size=(PAIRS, 6)),
        for_scale=rng.integers(DOCUMENTS, size=(PAIRS, 6)),
        sought=SearchSizes(depth=DOCUMENTS, keep=5, neighbours=4, draws=6),
        rng=lambda *purpose: RNG(len(purpose)),
        progress=lambda *_: None,
    )
    vectors = [rng.normal(size=(n, DIM)).astype(np.float32) for n in (PAIRS - 5, DOCUMENTS)]
    vectors[0] += vectors[1][own[: PAIRS - 5]]
    return judging, Read(*(v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors))


def fits(world):
    """(pair, document): 2 z(cosine) + z(BM25 share), all of them."""
    judging, reader = world
    text, own = judging.positions.text, judging.positions.own
    bm25 = judging.words.bm25(np.arange(PAIRS - 5), np.tile(np.arange(DOCUMENTS), (PAIRS - 5, 1)))
    share = (bm25 / bm25.max(axis=1, keepdims=True))[text]
    cosine = (reader.found[0] @ reader.found[1].T)[text]
    rows = np.arange(PAIRS)
    z = [(m - m[rows, own].mean()) / m[rows, own].std() for m in (cosine, share)]
    return 2 * z[0] + z[1]


def test_all_that_is_found_is_what_comparing_everything_finds(world):
    judging, reader = world
    found, expected = by_transformer(judging, reader).found, fits(world)
    rows, own = np.arange(PAIRS), judging.positions.own
    assert found.own == pytest.approx(expected[rows, own], abs=1e-4)
    assert found.rank.tolist() == (expected >= expected[rows, own][:, None] - 1e-5).sum(axis=1).tolist()
    for pair in range(PAIRS):
        named = set(own[judging.positions.text == judging.positions.text[pair]])
        others = [d for d in np.argsort(-expected[pair]) if d not in named][:5]
        assert found.others[pair].tolist() == others
        assert found.fits[pair] == pytest.approx(expected[pair, others], abs=1e-4)
    assert found.nulls["random"] == pytest.approx(np.take_along_axis(expected, judging.random, axis=1), abs=1e-4)


def test_documents_of_the_nulls_lie_around_the_best_other_one(world):
    judging, reader = world
    found, expected = by_transformer(judging, reader).found, fits(world)
    bm25 = judging.words.bm25(np.arange(PAIRS - 5), np.tile(np.arange(DOCUMENTS), (PAIRS - 5, 1)))
    cosine = reader.found[1] @ reader.found[1].T
    source = judging.positions.source
    for pair in range(PAIRS):
        text = judging.positions.text[pair]
        best = found.others[pair, 0]
        barred = {best, *judging.positions.own[judging.positions.text == text]}
        near = [d for d in np.argsort(-cosine[best]) if d not in barred][:4]
        assert found.nulls["near"][pair] == pytest.approx(expected[pair, near], abs=1e-4)
        worded = [d for d in np.argsort(-bm25[text], kind="stable") if d not in barred and bm25[text, d] > 0][:4]
        as_good = [d for d in range(DOCUMENTS) if d not in barred and bm25[text, d] >= bm25[text, worded[-1]] - 1e-6]
        drawn = found.nulls["lexical"][pair]
        assert np.isfinite(drawn).sum() == len(worded)
        assert all(np.isclose(expected[pair, as_good], one, atol=1e-4).any() for one in drawn[np.isfinite(drawn)])
        siblings = [d for d in range(DOCUMENTS) if source[d] == source[best] and d not in barred]
        drawn = found.nulls["source"][pair]
        assert all(np.isclose(expected[pair, siblings], one, atol=1e-4).any() for one in drawn[np.isfinite(drawn)])


def test_the_cascade_reads_what_the_budget_allows_and_keeps_ranks_among_the_nulls(world):
    judging, reader = world
    slow = Read(*reader.found)
    cheap = by_static(judging, reader)
    partly = cascaded(judging, reader, slow, 100)
    assert 0 < partly.read.sum() < PAIRS
    asked, held = slow.asked[-1]
    assert 3 * (asked.sum() + held.sum()) <= 100
    assert asked[judging.positions.text[partly.read]].all() and held[judging.positions.own[partly.read]].all()
    for null, drawn in cheap.found.nulls.items():
        before = drawn > cheap.found.own[:, None] + 1e-3
        after = partly.found.nulls[null] > partly.found.own[:, None] + 1e-6
        assert (before <= after).all()
    assert cascaded(judging, reader, slow, slow.tokens).read.all()


def test_the_pairs_that_tell_the_scale_are_looked_at_few_at_a_time(world, monkeypatch):
    judging, reader = world
    whole = [by(judging, reader).found.own for by in (by_static, by_transformer)]
    texts_at_once = []
    ask = type(judging.words).best

    def asked(self, texts, count):
        texts_at_once.append(len(texts))
        return ask(self, texts, count)

    monkeypatch.setattr(type(judging.words), "best", asked)
    monkeypatch.setattr(hybrid, "_CELLS", DOCUMENTS)
    monkeypatch.setattr(hybrid, "_FEWEST", 16)
    parts = [by(judging, reader).found.own for by in (by_static, by_transformer)]
    assert max(texts_at_once) <= 16 < PAIRS - 5
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [16, 15])
def test_beyond_what_is_compared_exactly_most_of_the_nearest_are_found(monkeypatch, dim):
    vectors = RNG(0).normal(size=(2000, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    monkeypatch.setattr(hybrid, "_EXACT", 1000)
    similarities, rows = hybrid.vector_index(vectors).search(vectors[:50], 5)
    expected = vectors[:50] @ vectors.T
    assert similarities == pytest.approx(np.take_along_axis(expected, rows, axis=1), abs=1e-5)
    assert (rows[:, 0] == np.arange(50)).all()
    assert np.mean([len(np.intersect1d(a, np.argsort(-b)[:5])) / 5 for a, b in zip(rows, expected, strict=True)]) > 0.5
