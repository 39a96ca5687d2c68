"""Rank shares among the documents drawn for a pair's own query."""

import numpy as np
import pytest

from noisyir.detection.null import rank_shares, wrong_scores


def test_a_share_is_the_place_among_the_draws_by_hand():
    draws = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [np.nan, 2.0, np.nan], [np.nan] * 3])
    shares = rank_shares(np.array([0.0, 2.0, 9.0, 9.0, 9.0]), draws)  # the last has no draw
    np.testing.assert_allclose(shares.low, [0, 1 / 4, 3 / 4, 1 / 2])
    np.testing.assert_allclose(shares.high, [1 / 4, 3 / 4, 1, 1])
    assert shares.above(1 / 2) == 0.5 + 1 + 1  # half of the second, which lies among equals
    assert shares.mean() == pytest.approx((1 / 8 + 1 / 2 + 7 / 8 + 3 / 4) / 4)


@pytest.mark.parametrize("draws", [1, 4, 9])
@pytest.mark.parametrize("step", [1e-9, 1.0, 100.0])
def test_one_more_draw_has_a_uniform_share_whatever_the_query_and_however_many_ties(draws, step):
    """Within four standard deviations of as many uniform numbers, which have the greatest variance there is."""
    rng = np.random.default_rng(draws)
    offset, spread = rng.normal(0, 50, (20_000, 1)), rng.uniform(0.1, 9, (20_000, 1))
    scores = np.round((offset + spread * rng.normal(0, 1, (20_000, draws + 1))) / step) * step
    shares = rank_shares(scores[:, 0], scores[:, 1:])
    for level in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert abs(shares.above(level) - 20_000 * (1 - level)) < 4 * np.sqrt(20_000 * level * (1 - level))


def test_wrong_scores_are_those_of_the_queries_that_wrong_pairs_have():
    """Wrong pairs are of harder queries, whose scores are higher: the draws of all pairs would be too low."""
    rng = np.random.default_rng(0)
    wrong = rng.random(5000) < 0.3
    level = np.where(wrong, 5.0, 0.0)
    observed = rng.normal(level - 6 * ~wrong)
    draws = rng.normal(level[:, None], 1, (5000, 9))
    found = wrong_scores(observed, draws)
    assert found.mean() == pytest.approx(5.0, abs=0.1) and found.std() == pytest.approx(1.0, abs=0.1)
    few = wrong_scores(observed[~wrong], draws[~wrong])
    assert sorted(few) == sorted(draws[~wrong].ravel())
