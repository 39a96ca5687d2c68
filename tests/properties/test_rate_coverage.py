"""Where the assumptions hold, the interval holds the share of wrong pairs as often as it says; so does the check."""

import numpy as np
import pytest

from noisyir.detection.null import rank_shares
from noisyir.detection.rate import LOOK_MADE_UP, rate_by_null

RUNS = 500


def simulated(count, rate, rng, draws):
    """Scores, draws and truth: queries differ in level and spread; wrong pairs are one draw more."""
    level, spread = rng.normal(0, 3, count), rng.uniform(0.5, 2, count)
    wrong = rng.random(count) < rate
    own = level + spread * (rng.standard_normal(count) - 6 * ~wrong)
    made_up = level[:, None] + spread[:, None] * rng.standard_normal((count, draws))
    return own, made_up, wrong


@pytest.mark.parametrize("pairs", [1000, 10_000])
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("draws", [1, 9])
def test_coverage_of_the_rate_and_level_of_the_check(pairs, rate, draws):
    """Of 500 runs with the seed below."""
    rng = np.random.default_rng([pairs, round(100 * rate), draws])
    covered = refused = 0
    for _ in range(RUNS):
        own, made_up, wrong = simulated(pairs, rate, rng, draws)
        found = rate_by_null(rank_shares(own, made_up))
        low = found.low * (1 - LOOK_MADE_UP["random"]) + LOOK_MADE_UP["random"]  # none looks made up here
        covered += (low if found.low else 0.0) <= wrong.mean() <= found.high
        refused += found.fit < 0.05
    assert 0.93 <= covered / RUNS <= (1 if rate <= LOOK_MADE_UP["random"] else 0.97)
    assert refused / RUNS <= 0.07 if draws > 1 else refused == 0


def test_no_wrong_pair_is_no_rate():
    rng = np.random.default_rng(0)
    own, made_up, _ = simulated(5000, 0.0, rng, 9)
    found = rate_by_null(rank_shares(own, made_up))
    assert found.rate == 0.0 and found.high < 0.001 and found.trusted > 0.9
