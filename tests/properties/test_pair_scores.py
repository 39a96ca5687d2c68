"""What the scores of pairs keep to, whatever the pairs: by a slow search where that says more."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.detection.combine import Scores
from noisyir.detection.in_batch import InBatch, log_rank, score_in_batch
from noisyir.detection.settings import DetectParams
from noisyir.detection.synthetic import passages_of_others
from noisyir.detection.verdicts import detect
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.losses.dpr import pair_nll
from tests.tiny_models import static_encoder

WORDS = 40
ENCODER = static_encoder(torch.randn(WORDS, 8, generator=torch.Generator().manual_seed(0)))
VECTORS = ENCODER.embed(ENCODER.tokenize([f"w{word}" for word in range(WORDS)], "query"), "query").detach().numpy()
SCALE = 5.0

seeds = st.integers(0, 2**32)
counts = st.integers(1, 30)
statistics = st.sampled_from([pair_nll, log_rank])


def one_word_pairs(query, passage, text):
    """Queries and passages are words; `text` numbers the queries' texts."""
    texts = [f"w{word}" for word in range(WORDS)]
    known = np.unique(np.stack([text[query], passage], axis=1), axis=0)
    return TrainingPairs(
        query, passage, text, Ragged.grouped(known[:, 0], known[:, 1], WORDS),
        Ragged.grouped(query[:0], query[:0], len(text)),
        ENCODER.tokenize([texts[number] for number in text], "query"), ENCODER.tokenize(texts, "passage"),
    )  # fmt: skip


def some_pairs(seed, count):
    """Pairs of few passages and few query texts, so that many of them name the same."""
    rng = np.random.default_rng(seed)
    text = rng.integers(12, size=20)
    return one_word_pairs(rng.integers(20, size=count), rng.integers(15, size=count), text), rng


def scored(pairs, rng, statistic, *, chosen=None, size=1000, shuffles=1, stand_ins=()):
    chosen = np.arange(len(pairs)) if chosen is None else chosen
    return score_in_batch(ENCODER, pairs, chosen, InBatch(size, shuffles, SCALE, statistic), rng, stand_ins)


def by_hand(pairs, statistic, tried):
    """The score of each pair with the passage `tried` in the place of its own, all pairs in one batch."""
    found = []
    for number, (query, passage) in enumerate(zip(pairs.query, tried, strict=True)):
        vector = VECTORS[pairs.text[query]]
        barred = {*pairs.known.take(pairs.text[[query]])[1].tolist(), passage}
        others = [other for i, other in enumerate(pairs.passage) if i != number and other not in barred]
        own, rest = SCALE * vector @ VECTORS[passage], SCALE * VECTORS[others] @ vector
        found.append(
            np.logaddexp.reduce([own, *rest]) - own if statistic is pair_nll else np.log(1 + (rest >= own).sum())
        )
    return found


@given(seeds, counts, statistics)
def test_scores_are_those_of_a_slow_sum_over_the_other_passages_of_the_batch(seed, count, statistic):
    pairs, rng = some_pairs(seed, count)
    synthetic = passages_of_others(pairs.passage, rng)
    own, wrong = scored(pairs, rng, statistic, stand_ins=(synthetic,))
    np.testing.assert_allclose(own, by_hand(pairs, statistic, pairs.passage), atol=1e-4)
    np.testing.assert_allclose(wrong, by_hand(pairs, statistic, synthetic), atol=1e-4)


@given(seeds, counts, statistics, st.integers(1, 3))
def test_where_all_pairs_are_in_one_batch_their_order_changes_no_score(seed, count, statistic, shuffles):
    pairs, rng = some_pairs(seed, count)
    order = rng.permutation(count)
    (scores,) = scored(pairs, rng, statistic, shuffles=shuffles)
    moved = one_word_pairs(pairs.query[order], pairs.passage[order], pairs.text)
    np.testing.assert_allclose(scored(moved, rng, statistic)[0], scores[order], atol=1e-5)
    np.testing.assert_allclose(scored(pairs, rng, statistic, chosen=order)[0], scores[order], atol=1e-5)


@given(seeds)
@settings(max_examples=30)
def test_nor_does_it_change_a_verdict(seed):
    rng = np.random.default_rng(seed)
    words = np.arange(WORDS)
    wrong = rng.random(WORDS) < 0.4
    passage = words.copy()
    passage[wrong] = np.roll(words[wrong], 1)
    order = rng.permutation(WORDS)
    straight, shuffled = (
        detect(Scores(score, {"random": score[:, None]}), DetectParams(method="gmm", min_rate=0.0, assume="best"))
        for rows in (words, order)
        for (score,) in [scored(one_word_pairs(rows, passage[rows], words), rng, pair_nll)]
    )
    np.testing.assert_allclose(shuffled.p_clean, straight.p_clean[order], atol=1e-3)
    clear = np.abs(straight.p_clean[order] - 0.5) > 1e-3
    np.testing.assert_array_equal(shuffled.is_clean[clear], straight.is_clean[order][clear])


@given(seeds, st.integers(1, WORDS), st.integers(1, 50), st.integers(1, 3))
def test_every_pair_meets_as_many_negatives_though_the_last_batch_be_short(seed, count, size, shuffles):
    def passages_that_count(scores, positive, ignored):
        assert not ignored[torch.arange(len(ignored)), positive].any()
        return (~ignored).sum(dim=1).float()

    rng = np.random.default_rng(seed)
    words = rng.permutation(WORDS)[:count]  # all different
    pairs = one_word_pairs(words, words, np.arange(WORDS))
    found = scored(pairs, rng, passages_that_count, size=size, shuffles=shuffles)
    np.testing.assert_array_equal(found, np.full((1, count), min(size, count), np.float32))


@given(seeds, counts)
def test_a_copy_of_the_own_passage_in_the_batch_changes_nothing(seed, count):
    pairs, rng = some_pairs(seed, count)
    copied = rng.integers(count)
    more = one_word_pairs(
        np.append(pairs.query, len(pairs.text)), np.append(pairs.passage, pairs.passage[copied]),
        np.append(pairs.text, 30),
    )  # fmt: skip
    for statistic in (pair_nll, log_rank):
        before, after = (scored(some, rng, statistic)[0][:count] for some in (pairs, more))
        assert after[copied] == pytest.approx(before[copied], abs=1e-5)
        assert (after >= before - 1e-5).all(), "one passage more in the batch makes no pair look better"


@given(seeds, counts, statistics, st.integers(1, 40))
def test_a_stand_in_that_is_the_own_passage_scores_as_it_does(seed, count, statistic, size):
    pairs, rng = some_pairs(seed, count)
    own, again = scored(pairs, rng, statistic, size=size, shuffles=2, stand_ins=(pairs.passage,))
    np.testing.assert_array_equal(own, again)


@given(seeds, counts)
def test_a_synthetic_passage_is_another_pairs(seed, count):
    rng = np.random.default_rng(seed)
    rows = np.arange(count)
    found = passages_of_others(rows, rng)
    assert sorted(found) == rows.tolist(), "each is given away once"
    assert count == 1 or (found != rows).all()
