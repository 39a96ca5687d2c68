"""Batches: columns, masks, hard negatives."""

import numpy as np
import pytest
import torch

from noisyir.training.batches import PairBatches, Ragged, assemble, draw_negatives, is_known, known_columns
from noisyir.training.losses.dpr import pair_nll
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import SIZE, toy_pairs


def test_columns_run_pair_by_pair_its_own_passage_first(bert):
    pairs = toy_pairs(tiny_encoder(bert), negatives=2)
    batch = assemble(pairs, np.array([5, 2]), np.array([[6, 7], [3, 4]]))
    assert batch.positive.tolist() == [0, 3]
    wanted = pairs.passages.take(np.array([5, 6, 7, 2, 3, 4]))
    np.testing.assert_array_equal(batch.passages.ids, wanted.ids)
    np.testing.assert_array_equal(batch.queries.ids, pairs.queries.take(np.array([5, 2])).ids)
    assert not batch.ignored.any()


def test_a_passage_in_the_batch_twice_is_ignored_beside_its_pairs_own_column(bert):
    batch = assemble(toy_pairs(tiny_encoder(bert)), np.array([3, 8, 3]), np.array([[8], [1], [5]]))
    # columns: 3 8 | 8 1 | 3 5
    assert batch.ignored.astype(int).tolist() == [[0, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]


def test_known_columns_and_entries_are_those_a_slow_search_finds():
    rng = np.random.default_rng(0)
    known = [rng.choice(9, rng.integers(0, 4), replace=False) for _ in range(6)]
    ragged = Ragged.grouped(np.repeat(np.arange(6), [len(some) for some in known]), np.concatenate(known), 6)
    texts, columns = rng.integers(6, size=5), rng.integers(9, size=12)
    slow = [[column in known[text] for column in columns] for text in texts]
    np.testing.assert_array_equal(known_columns(ragged, texts, columns), slow)
    texts, passages = rng.integers(6, size=200), rng.integers(14, size=200)  # 9 to 13 are nobody's
    entries = [passage in known[text] for text, passage in zip(texts, passages, strict=True)]
    np.testing.assert_array_equal(is_known(ragged, texts, passages), entries)
    assert any(entries) and not all(entries)


def test_where_no_pair_knows_anything_nothing_is_known():
    nothing = np.empty(0, np.int64)
    ragged = Ragged.grouped(nothing, nothing, 3)
    assert is_known(ragged, np.array([0, 2]), np.array([0, 5])).tolist() == [False, False]
    assert is_known(ragged, nothing, nothing).tolist() == []


def test_hard_negatives_are_the_querys_own_without_repetition_and_the_missing_ones_are_any_passages(bert):
    pairs = toy_pairs(tiny_encoder(bert), negatives=3)
    drawn = draw_negatives(pairs, 2, np.random.default_rng(0))
    for row in range(SIZE - 1):
        assert set(drawn[row]) <= {(row + k) % SIZE for k in (1, 2, 3)}
        assert len(set(drawn[row])) == 2
    assert ((drawn[-1] >= 0) & (drawn[-1] < SIZE)).all()
    more = draw_negatives(pairs, 5, np.random.default_rng(0))
    assert {(4 + k) % SIZE for k in (1, 2, 3)} <= set(more[4])


def test_each_of_a_querys_negatives_is_drawn_equally_often(bert):
    pairs = toy_pairs(tiny_encoder(bert), negatives=3)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([draw_negatives(pairs, 1, rng)[:-1, 0] - np.arange(SIZE - 1) for _ in range(200)]) % SIZE
    counts = np.bincount(drawn, minlength=4)[1:4]
    assert counts.sum() == 200 * (SIZE - 1)
    assert abs(counts - counts.mean()).max() < 4 * np.sqrt(counts.mean())


def test_an_epoch_can_start_at_any_batch(bert):
    pairs = toy_pairs(tiny_encoder(bert), negatives=1)
    batches, again = (PairBatches(pairs, 5, 1, lambda epoch: np.random.default_rng([3, epoch])) for _ in range(2))
    whole, rest = [batches[number] for number in range(5, 10)], [again[number] for number in range(7, 10)]
    assert batches.an_epoch == 5 and [len(batch) for batch in whole] == [5, 5, 5, 5, 4]
    for one, other in zip(whole[2:], rest, strict=True):
        np.testing.assert_array_equal(one.passages.ids, other.passages.ids)
        np.testing.assert_array_equal(one.ignored, other.ignored)


def test_with_a_pool_of_its_own_a_query_is_scored_against_its_own_columns_alone(bert):
    pairs = toy_pairs(tiny_encoder(bert))
    rows, negatives = np.array([3, 8, 3]), np.array([[8, 3], [1, 2], [5, 6]])
    own, batch = (assemble(pairs, rows, negatives, pool) for pool in ("own", "batch"))
    # columns: 3 8 3 | 8 1 2 | 3 5 6; the first pair drew its own passage as a negative
    assert own.ignored.astype(int).tolist() == [
        [0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0, 0]
    ]  # fmt: skip
    assert (batch.ignored <= own.ignored).all()
    np.testing.assert_array_equal(own.passages.ids, batch.passages.ids)


def test_an_epoch_passes_the_pool_on_and_draws_the_same_whatever_it_is(bert):
    pairs = toy_pairs(tiny_encoder(bert), negatives=2)
    own, batch = (PairBatches(pairs, 5, 2, np.random.default_rng, pool) for pool in ("own", "batch"))
    for one, other in ((own[number], batch[number]) for number in range(5)):
        np.testing.assert_array_equal(one.rows, other.rows)
        assert ((~one.ignored).sum(axis=1) <= 3).all() and (~other.ignored).sum() > (~one.ignored).sum()


def test_in_pools_of_their_own_pairs_do_not_feel_who_shares_their_batch(bert):
    encoder = tiny_encoder(bert)
    pairs = toy_pairs(encoder)

    def loss_of_first(others):
        rows = np.array([3, *others])
        batch = assemble(pairs, rows, (rows[:, None] + [1, 2]) % SIZE, "own")
        queries, passages = encoder.embed_both(batch.queries, batch.passages)
        positive, ignored = torch.from_numpy(batch.positive), torch.from_numpy(batch.ignored)
        return pair_nll(queries @ passages.T, positive, ignored)[0].item()

    assert loss_of_first([8, 11]) == pytest.approx(loss_of_first([20]), rel=1e-6)
