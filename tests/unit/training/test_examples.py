"""From tables to numbered, tokenised examples."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import DataError
from noisyir.training import examples
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder

QUERIES = pa.table(
    {
        "query_id": ["a", "b", "c", "d", "e"],
        "text": ["w1", "w2", "w1", "w4", "w5"],
        "split": ["train", "train", "train", "dev", "dev"],
    }
)
CORPUS = pa.table({"doc_id": list("uvwxyz"), "title": [""] * 6, "text": [f"w{i}" for i in range(10, 16)]})
PAIRS = pa.table({"query_id": ["b", "a", "c", "d"], "doc_id": ["x", "u", "w", "y"], "split": ["train"] * 3 + ["dev"]})
QRELS = pa.table({"query_id": ["d", "d", "e", "a"], "doc_id": ["y", "z", "z", "u"], "relevance": [1, 0, 2, 1]})


def documents(encoder, ids):
    return examples.read_documents(encoder, CORPUS.to_batches(2), pa.array(ids))


def known_of(pairs, query):
    return sorted(pairs.known.take(pairs.text[[query]])[1].tolist())


def test_pairs_are_numbered_and_know_what_their_text_is_paired_with(bert):
    encoder = tiny_encoder(bert)
    train, queries = examples.training_queries(PAIRS, QUERIES)
    negatives = pa.table({"query_id": ["c", "a", "c"], "doc_id": ["x", "w", "u"]})
    read = documents(encoder, ["x", "u", "w"])
    pairs = examples.training_pairs(encoder, train, queries, read, negatives)
    assert queries["query_id"].to_pylist() == ["a", "b", "c"]
    assert read.numbering.ids.to_pylist() == ["u", "w", "x"]
    assert (pairs.query.tolist(), pairs.passage.tolist()) == ([1, 0, 2], [2, 0, 1])
    # a and c read the same, so each one's passage is known to be right for the other
    assert [known_of(pairs, query) for query in range(3)] == [[0, 1], [2], [0, 1]]
    assert [pairs.negatives.take(np.array([query]))[1].tolist() for query in range(3)] == [[1], [], [2, 0]]


def test_only_documents_that_something_names_are_tokenised(bert):
    read = documents(tiny_encoder(bert), ["v", "z"])
    assert read.numbering.ids.to_pylist() == ["v", "z"]
    assert read.tokens.ids.tolist() == [4 + 11, 4 + 15]


def test_dev_queries_are_those_with_a_relevant_document(bert):
    found = examples.dev_relevance(QRELS, QUERIES, 10, np.random.default_rng(0))
    assert found.select(["query_id", "text", "doc_id"]).to_pylist() == [
        {"query_id": "d", "text": "w4", "doc_id": "y"},
        {"query_id": "e", "text": "w5", "doc_id": "z"},
    ]
    assert examples.dev_relevance(QRELS, QUERIES, 1, np.random.default_rng(0)).num_rows == 1
    assert examples.dev_relevance(QRELS, QUERIES, 0, np.random.default_rng(0)).num_rows == 0


@pytest.mark.parametrize(("at_most", "size"), [(1, 2), (4, 4), (100, 6)])
def test_the_dev_pool_has_every_relevant_document_and_others_where_there_is_room(bert, at_most, size):
    encoder = tiny_encoder(bert)
    relevance = examples.dev_relevance(QRELS, QUERIES, 10, np.random.default_rng(0))
    held = examples.held_out(encoder, relevance, documents(encoder, list("uvwxyz")), at_most, np.random.default_rng(0))
    assert len(held.pool) == size
    row, place = held.relevant.take(np.arange(2))
    assert row.tolist() == [0, 1]
    assert held.pool.take(place).ids.tolist() == [4 + 14, 4 + 15]
    assert held.queries.ids.tolist() == [4 + 4, 4 + 5]


def test_an_unknown_document_or_query_is_named(bert):
    encoder = tiny_encoder(bert)
    train, queries = examples.training_queries(PAIRS, QUERIES)
    none = train.select(["query_id", "doc_id"]).slice(0, 0)
    with refuses(DataError, "training.unknown_ids", of="documents", example="x"):
        examples.training_pairs(encoder, train, queries, documents(encoder, ["u", "w"]), none)
    with refuses(DataError, "training.unknown_ids", of="queries", example="b"):
        examples.training_pairs(encoder, train, queries.slice(0, 1), documents(encoder, ["u", "w", "x"]), none)


def test_no_training_pairs_is_an_error():
    with refuses(DataError, "training.no_training_pairs"):
        examples.training_queries(PAIRS.slice(3), QUERIES)


def test_without_dev_queries_nothing_is_held_out(bert):
    encoder = tiny_encoder(bert)
    none = examples.dev_relevance(QRELS, QUERIES, 0, np.random.default_rng(0))
    assert examples.held_out(encoder, none, documents(encoder, ["u"]), 10, np.random.default_rng(0)) is None


def test_documents_of_equal_title_and_text_are_one_passage(bert):
    encoder = tiny_encoder(bert)
    corpus = pa.table(
        {
            "doc_id": list("abcdefg"),
            "title": ["w1", "", "w1", "", "w2", "w1", ""],
            "text": ["w3", "w3", "w3", "w3", "w3", "w4", "w1 w3"],
        }
    )
    read = examples.read_documents(encoder, corpus.to_batches(2), None)
    assert read.same.tolist() == [0, 1, 0, 1, 4, 5, 0]  # g reads as a does, title and all
    assert len(read.tokens) == 7
    assert read.passages(pa.array(["f", "g", "d", "b"])).tolist() == [5, 0, 1, 1]
    with refuses(DataError, "training.unknown_ids", rows=1, of="documents"):
        read.passages(pa.array(["a", "x"]))
    fewer = examples.read_documents(encoder, corpus.to_batches(2), pa.array(["c", "d", "g"]))
    assert fewer.same.tolist() == [0, 1, 0], "the first of those that are read"


def test_pairs_that_name_copies_name_one_passage(bert):
    """A copy of a query's right passage, paired with another query, must not become its negative."""
    encoder = tiny_encoder(bert)
    corpus = CORPUS.set_column(2, "text", pa.array(["w10", "w11", "w10", "w13", "w14", "w15"]))
    train, queries = examples.training_queries(PAIRS, QUERIES)
    read = examples.read_documents(encoder, corpus.to_batches(2), None)
    negatives = pa.table({"query_id": ["b"], "doc_id": ["w"]})
    pairs = examples.training_pairs(encoder, train, queries, read, negatives)
    assert pairs.passage.tolist() == [3, 0, 0]  # x, u, and w, which reads as u
    assert known_of(pairs, 0) == known_of(pairs, 2) == [0]
    assert pairs.negatives.take(np.array([1]))[1].tolist() == [0]
