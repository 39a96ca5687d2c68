"""What a searcher would pair instead, against a slow look at the whole collection."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from noisyir.detection.collection import EncodedCollection
from noisyir.detection.competitors import Competitors, dense_competitors, lexical_competitors, merged
from noisyir.detection.synthetic import References, near_documents, passages_of_others, random_documents
from noisyir.retrieval.numpy_bm25 import NumpyBm25, build
from noisyir.training.batches import Ragged, TrainingPairs
from tests.tiny_models import static_encoder

PASSAGES, QUERIES, PAIRS = 60, 25, 40


class World:
    """Texts of a few words each, some passages copies of others, some queries alike, and pairs that name any."""

    def __init__(self, seed, similarity="cosine", size=1.0):
        rng = np.random.default_rng(seed)
        vectors = size * torch.randn(30, 12, generator=torch.Generator().manual_seed(seed))
        self.encoder = static_encoder(vectors, similarity, shared=False)
        self.passages = [" ".join(f"w{word}" for word in rng.integers(30, size=4)) for _ in range(PASSAGES)]
        self.passages[40:52] = self.passages[:6] * 2
        self.same = np.array([self.passages.index(passage) for passage in self.passages])
        self.queries = [" ".join(f"w{word}" for word in rng.integers(30, size=3)) for _ in range(QUERIES)]
        self.queries[20:] = self.queries[:5]
        text = np.array([self.queries.index(query) for query in self.queries])
        query, passage = rng.integers(QUERIES, size=PAIRS), self.same[rng.integers(PASSAGES, size=PAIRS)]
        known = np.unique(np.stack([text[query], passage], axis=1), axis=0)
        nothing = Ragged.grouped(known[:0, 0], known[:0, 0], QUERIES)
        self.pairs = TrainingPairs(
            query, passage, text, Ragged.grouped(known[:, 0], known[:, 1], QUERIES), nothing,
            self.encoder.tokenize(self.queries, "query"), self.encoder.tokenize(self.passages, "passage"),
        )  # fmt: skip
        random, near = passages_of_others(passage, rng), passages_of_others(passage, rng)
        self.wrong = References({"random": random[:, None], "near": near[:, None]})

    def similarities(self):
        """(pair, passage), in float64."""
        with torch.no_grad():
            query = self.encoder.embed(self.pairs.queries, "query").numpy()[self.pairs.query].astype(float)
            return query @ self.encoder.embed(self.pairs.passages, "passage").numpy().astype(float).T

    def known_of(self, pair):
        return set(self.pairs.known.take(self.pairs.text[self.pairs.query[[pair]]])[1].tolist())

    def dense(self, chosen=None, *, keep=5, depth=10):
        chosen = np.arange(PAIRS) if chosen is None else chosen
        wrong = self.wrong.of(chosen)
        collection = EncodedCollection(self.encoder, self.pairs, self.same, self.pairs.query[chosen])
        return dense_competitors(collection, self.pairs, chosen, keep=keep, depth=depth, wrong=wrong)


def check(world, found, scores, *, keep, depth, atol, above=-np.inf):
    """Compare with a slow search by `scores` (pair, passage), in which passages are found that score over `above`."""
    distinct = np.unique(world.same)
    for pair, (own, score) in enumerate(zip(world.pairs.passage, scores, strict=True)):
        assert found.own[pair] == pytest.approx(score[own], abs=atol)
        made_up = world.wrong.tried(world.pairs.passage)[pair]
        assert found.made_up[pair] == pytest.approx(score[made_up], abs=atol)
        rank = int((score[distinct] >= score[own] - atol).sum())
        assert found.rank[pair] == (rank if rank <= depth and score[own] > above else 0)
        others = [row for row in distinct if row not in world.known_of(pair) and score[row] > above]
        best = sorted((score[row] for row in others), reverse=True)[:keep]
        kept = found.rows[pair] >= 0
        assert kept.sum() == len(best) and set(found.rows[pair][kept]) <= set(others)
        np.testing.assert_allclose(found.similarities[pair][kept], best, atol=atol)
        np.testing.assert_allclose(score[found.rows[pair][kept]], best, atol=atol)


@pytest.mark.parametrize("depth", [1, 3, 10, 1000])
@pytest.mark.parametrize(("similarity", "size"), [("cosine", 1.0), ("dot", 1.0), ("dot", 20.0)])
def test_dense_competitors_are_those_of_a_slow_search(similarity, size, depth):
    world = World(0, similarity, size)
    keep = min(5, depth)
    found = world.dense(keep=keep, depth=depth)
    check(world, found, world.similarities(), keep=keep, depth=depth, atol=1e-5 * size**2)
    assert (found.rank > 0).all() == (depth == 1000)


def test_a_document_that_is_the_query_itself_takes_no_rank(bm25):
    world = World(5)
    text = world.pairs.text[world.pairs.query]
    better = [int(np.setdiff1d(world.same, [own])[0]) for own in world.pairs.passage]
    itself = Ragged.grouped(text, np.array(better), QUERIES)
    world.pairs = replace(world.pairs, itself=itself)
    scores, found = world.similarities(), world.dense(depth=1000)
    for pair, own in enumerate(world.pairs.passage):
        barred = np.setdiff1d(itself.of(text[pair]), [own])
        rivals = np.setdiff1d(np.unique(world.same), barred)
        rank = int((scores[pair][rivals] >= scores[pair][own] - 1e-5).sum())
        assert found.rank[pair] == rank
    searcher, rows = bm25(world)

    def lexical(itself):
        pairs = replace(world.pairs, itself=itself)
        given = searcher, world.queries, world.same[rows], pairs, np.arange(PAIRS)
        return lexical_competitors(*given, keep=5, wrong=world.wrong)

    without = lexical(None)
    there = without.rows[:, 0] >= 0
    barred = lexical(Ragged.grouped(text[there], without.rows[there, 0], QUERIES))
    assert (barred.rank <= without.rank).all() and (barred.rank < without.rank).any()
    np.testing.assert_array_equal(barred.rows, without.rows)


def test_competitors_of_some_pairs_merge_to_those_of_all():
    world = World(1)
    odd, even = np.arange(1, PAIRS, 2), np.arange(0, PAIRS, 2)
    whole, found = world.dense(), merged([(odd, world.dense(odd)), (even, world.dense(even))])
    for name in ("own", "made_up", "similarities"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-6)
    np.testing.assert_array_equal(found.rank, whole.rank)
    np.testing.assert_array_equal(found.rows, whole.rows)


def test_where_the_query_knows_every_passage_there_is_no_competitor():
    world = World(2)
    (only,) = world.pairs.passage[:1]
    same = np.full(PASSAGES, only)
    pairs = TrainingPairs(
        world.pairs.query[:1], world.pairs.passage[:1], world.pairs.text, world.pairs.known, world.pairs.negatives,
        world.pairs.queries, world.pairs.passages,
    )  # fmt: skip
    collection = EncodedCollection(world.encoder, pairs, same, pairs.query)
    found = dense_competitors(collection, pairs, np.arange(1), keep=5, depth=10, wrong=world.wrong.of(np.arange(1)))
    assert found.rank.tolist() == [1] and (found.rows == -1).all() and not found.similarities.any()
    assert found.margins(world.wrong.of(np.arange(1))).observed.tolist() == [-found.own[0]]


@pytest.fixture
def bm25(tmp_path):
    """A searcher of a world's passages, and the passage of each of its documents."""

    def of(world):
        rng = np.random.default_rng(5)
        doc_ids = [f"d{number:02}" for number in rng.permutation(PASSAGES)]
        batch = pa.record_batch({"doc_id": doc_ids, "title": [""] * PASSAGES, "text": world.passages})
        build([batch], tmp_path / "bm25")
        searcher = NumpyBm25(tmp_path / "bm25", k1=0.9, b=0.4)
        place = {doc_id: row for row, doc_id in enumerate(doc_ids)}
        return searcher, np.array([place[doc_id] for doc_id in searcher.doc_ids.to_pylist()])

    return of


def test_lexical_competitors_are_the_searchers_own_without_copies_and_known_ones(bm25):
    world = World(3)
    blank, rare = [query for query in dict.fromkeys(world.pairs.query) if 5 <= query < 20][:2]  # read like no other
    world.queries[blank] = "nothing known"
    words, counts = np.unique(" ".join(world.passages).split(), return_counts=True)
    world.queries[rare] = words[counts.argmin()]
    searcher, rows = bm25(world)
    scores = np.zeros((PAIRS, PASSAGES))
    for pair, query in enumerate(world.pairs.query):
        hits = searcher.search([world.queries[query]], PASSAGES)
        places = [searcher.doc_ids.index(doc_id).as_py() for doc_id in hits.doc_ids]
        scores[pair, rows[places]] = hits.scores
    found = lexical_competitors(
        searcher, world.queries, world.same[rows], world.pairs, np.arange(PAIRS), keep=5, wrong=world.wrong
    )
    check(world, found, scores, keep=5, depth=PASSAGES, atol=1e-5, above=0.0)
    assert found.depth == len(np.unique(world.same))
    assert (found.rank == 0).any() and (found.rows[world.pairs.query == blank] == -1).all()
    assert (found.rows[:, -1] >= 0).any() and (found.rows[world.pairs.query == rare, -1] == -1).all()


def test_a_passage_with_many_copies_leaves_room_for_others(bm25):
    world = World(4)
    pair = 0
    own = world.pairs.passage[pair]
    query = world.pairs.query[pair]
    world.queries[query] = world.passages[own]
    copies = np.setdiff1d(np.arange(PASSAGES), world.same)[:30]
    assert len(copies) >= 8
    for row in copies:
        world.passages[row], world.same[row] = world.passages[own], own
    searcher, rows = bm25(world)
    found = lexical_competitors(
        searcher, world.queries, world.same[rows], world.pairs, np.array([pair]), keep=5, wrong=world.wrong.of([pair])
    )
    assert found.rank.tolist() == [1]
    assert (found.rows >= 0).all() and own not in found.rows


def test_margins_and_log_ranks():
    rows, similarities = np.array([[3, 4], [5, -1], [-1, -1]]), np.array([[0.7, 0.6], [0.2, 0.0], [0.0, 0.0]])
    own, made_up = np.array([0.5, 0.6, 0.4]), np.array([[0.1, 0.4], [0.0, 0.5], [0.3, 0.1]])
    found = Competitors(own, made_up, np.array([2, 1, 0]), rows, similarities, 100)
    margins = found.margins(References({"random": np.array([[7], [8], [9]]), "near": np.array([[1], [2], [-1]])}))
    np.testing.assert_allclose(margins.observed, [0.7 - 0.5, 0.2 - 0.6, 0.0 - 0.4])
    np.testing.assert_allclose(margins.nulls["random"][:, 0], [0.7 - 0.1, 0.6 - 0.0, 0.4 - 0.3], atol=1e-7)
    np.testing.assert_allclose(margins.nulls["near"][:, 0], [0.7 - 0.4, 0.6 - 0.5, np.nan], atol=1e-7)
    np.testing.assert_allclose(found.log_rank(), np.log([2, 1, 101]))


@pytest.mark.parametrize("neighbours", [1, 3, 100])
def test_near_documents_are_those_nearest_to_the_best_other_one(neighbours):
    world = World(5)
    collection = EncodedCollection(world.encoder, world.pairs, world.same, world.pairs.query)
    found = near_documents(collection, world.pairs, neighbours)
    scores, distinct = world.similarities(), np.unique(world.same)
    with torch.no_grad():
        vectors = world.encoder.embed(world.pairs.passages, "passage").numpy()
    assert found.shape == (PAIRS, neighbours)
    for pair, row in enumerate(found):
        others = np.array([other for other in distinct if other not in world.known_of(pair)])
        best = others[np.argmax(scores[pair, others])]
        rest = others[others != best]
        nearest = np.sort(vectors[rest] @ vectors[best])[::-1][:neighbours]
        np.testing.assert_allclose(vectors[row[row >= 0]] @ vectors[best], nearest, atol=1e-6)
        assert set(row[row >= 0]) <= set(rest) and len(set(row[row >= 0])) == len(nearest)


def test_random_documents_are_other_pairs_and_none_that_the_query_is_paired_with():
    world = World(5)
    found = random_documents(world.pairs, 40, lambda draw: np.random.default_rng(draw))
    named = np.unique(world.pairs.passage)
    counts = np.zeros(PASSAGES)
    for pair, row in enumerate(found):
        assert set(row) <= set(named) - world.known_of(pair)
        counts += np.bincount(row, minlength=PASSAGES)
    assert counts[named].min() > 0.5 * counts[named].mean()
    first = random_documents(world.pairs, 3, lambda draw: np.random.default_rng(draw))
    np.testing.assert_array_equal(found[:, :3], first)


def test_where_all_pairs_name_one_passage_there_is_no_random_document():
    world = World(6)
    text = world.pairs.text[world.pairs.query]
    pairs = TrainingPairs(
        world.pairs.query, np.full(PAIRS, 3), world.pairs.text,
        Ragged.grouped(np.unique(text), np.full(len(np.unique(text)), 3), QUERIES), world.pairs.negatives,
        world.pairs.queries, world.pairs.passages,
    )  # fmt: skip
    found = random_documents(pairs, 2, lambda draw: np.random.default_rng(draw))
    assert (found == -1).all()
    made_up = References({"random": found})
    assert (made_up.tried(pairs.passage) == 3).all()
    assert np.isnan(made_up.by_null(np.ones((PAIRS, 2)))["random"]).all()


def test_scores_are_given_back_null_by_null_and_nan_where_there_is_no_document():
    made_up = References({"random": np.array([[4, -1], [5, 6]]), "near": np.array([[7], [-1]])})
    assert made_up.tried(np.array([1, 2])).tolist() == [[4, 1, 7], [5, 6, 2]]
    found = made_up.by_null(np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]))
    np.testing.assert_allclose(found["random"], [[0.1, np.nan], [0.4, 0.5]])
    np.testing.assert_allclose(found["near"], [[0.3], [np.nan]])
    assert made_up.of(np.array([1])).nulls["random"].tolist() == [[5, 6]]
