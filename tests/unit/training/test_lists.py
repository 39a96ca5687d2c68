"""Lists of AR2: whose passages they hold, in whatever order the tables come, and what stands in for missing ones."""

import numpy as np
import pyarrow as pa

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, NOISY_PAIRS, QUERIES
from noisyir.training.artifacts import NEGATIVES
from noisyir.training.batches import Ragged
from noisyir.training.lists import ListBatches, Lists, ranking_lists, read_texts
from tests.refusals import refuses
from tests.world import table

QUERY = [("q1", "alpha", "train"), ("q0", "beta", "train"), ("twin", "alpha", "train"), ("idle", "gamma", "train")]
DOCUMENTS = {"d0": "zero", "d1": "one", "d2": "two", "d3": "three", "d4": "four", "copy": "one"}
PAIR = [("q0", "d0"), ("q0", "d3"), ("q1", "d1"), ("twin", "d4")]
MINED = [("q0", "d1"), ("q0", "copy"), ("q0", "d2"), ("q1", "d2"), ("q1", "d4"), ("idle", "d2")]


def made(shuffle=None, mined=MINED, pairs=PAIR):
    def rows(given):
        return list(given) if shuffle is None else [given[i] for i in shuffle.permutation(len(given))]

    corpus = table(CORPUS, [(i, n, "a title", text) for n, (i, text) in enumerate(rows(list(DOCUMENTS.items())))])
    documents = read_texts(corpus.to_batches(2), pa.array(list(DOCUMENTS)))
    return ranking_lists(
        table(NOISY_PAIRS, [(*pair, "train", None) for pair in rows(pairs)]),
        table(QUERIES, rows(QUERY)),
        documents,
        table(NEGATIVES, [(*pair, 1.0, 0) for pair in rows(mined)]),
    )


def named(lists, of):
    """{query's text and place: passages' texts} of positives or negatives."""
    found = [of.take(np.array([row]))[1].tolist() for row in range(len(lists))]
    return [sorted(lists.passages[row].as_py() for row in rows) for rows in found]


def test_positives_and_negatives_by_query_in_the_order_of_ids():
    lists = made()
    assert lists.queries.to_pylist() == ["beta", "alpha", "alpha"]  # idle has no pair
    assert named(lists, lists.positives) == [["a title three", "a title zero"], ["a title one"], ["a title four"]]
    # a copy is the same passage; what a pair gives to a query of the same text is nobody's negative there
    assert named(lists, lists.negatives) == [["a title one", "a title two"], ["a title two"], []]
    assert lists.missing(2).tolist() == [0, 1, 2]


def test_the_order_of_the_tables_is_of_no_account():
    lists, other = made(), made(np.random.default_rng(1))
    drawn, again = (one.draw(3, np.random.default_rng(0)) for one in (lists, other))
    assert np.array_equal(drawn, again) and lists.passages.equals(other.passages)


def test_a_list_is_a_positive_then_n_of_the_querys_negatives_without_repetition():
    size = 40
    own = Ragged.grouped(np.repeat(np.arange(size), 2), np.arange(2 * size), size)
    keys = np.repeat(np.arange(size), 10)
    mined = 2 * size + np.arange(10 * size)
    texts = pa.array([""] * 12 * size, pa.large_string())
    lists = Lists(
        texts.slice(0, size),
        texts,
        own,
        Ragged.grouped(keys, mined, size),
        np.arange(size),
        own,
        Ragged.grouped(own.values[:0], own.values[:0], size),
    )
    drawn = [lists.draw(6, np.random.default_rng(seed)) for seed in range(200)]
    for columns in drawn[:5]:
        assert (columns[:, 0] // 2 == np.arange(size)).all()
        assert ((columns[:, 1:] - 2 * size) // 10 == np.arange(size)[:, None]).all()
        assert all(len(set(row)) == 7 for row in columns.tolist())
    first = np.array([columns[:, 0] % 2 for columns in drawn])
    assert 0.47 < first.mean() < 0.53, "every positive has its chance"
    used = np.bincount(np.concatenate([columns[:, 1:].ravel() for columns in drawn]) - 2 * size)
    assert used.mean() == 120 and used.min() > 80, "every negative has its chance"


def test_random_training_passages_stand_in_and_none_is_known_to_be_right():
    lists = made()
    seen = set()
    for seed in range(50):
        columns = lists.draw(4, np.random.default_rng(seed))
        assert sorted(columns[1, 1:]).count(lists.negatives.take(np.array([1]))[1][0]) >= 1
        seen |= {lists.passages[int(row)].as_py() for row in columns[2, 1:]}
    assert seen == {"a title zero", "a title two", "a title three"}  # one and four are known of alpha


def test_without_any_negative_there_is_nothing_to_learn_from():
    with refuses(ConfigError, "training.no_negatives_left"):
        made(mined=[("idle", "d2")])
    with refuses(ConfigError, "training.no_negatives_left"):
        made(mined=[("q1", "d4")])


def test_a_query_that_everything_is_right_for_cannot_be_filled_up():
    everything = [("q0", doc_id) for doc_id in DOCUMENTS] + [("q1", "d1")]
    lists = made(pairs=everything, mined=[("q1", "d2")])
    with refuses(DataError, "training.too_few_negatives", query="beta"):
        lists.draw(2, np.random.default_rng(0))


def test_an_unknown_document_is_named():
    with refuses(DataError, "training.unknown_ids", of="documents", example="d9"):
        made(mined=[("q0", "d9")])


def test_an_epoch_has_every_query_once_and_batches_can_be_had_in_any_order():
    lists = made()

    def batches():
        return ListBatches(lists, 2, 2, lambda epoch: np.random.default_rng([7, epoch]))

    found = batches()
    assert found.an_epoch == 2
    epochs = [[found[number] for number in (2 * epoch, 2 * epoch + 1)] for epoch in range(3)]
    assert all(sorted(np.concatenate([batch.queries for batch in epoch])) == [0, 1, 2] for epoch in epochs)
    other = batches()
    for number in (5, 0, 3):
        one, two = epochs[number // 2][number % 2], other[number]
        assert np.array_equal(one.queries, two.queries) and np.array_equal(one.passages, two.passages)
    assert not all(np.array_equal(a.passages, b.passages) for a, b in zip(epochs[0], epochs[1], strict=True))
