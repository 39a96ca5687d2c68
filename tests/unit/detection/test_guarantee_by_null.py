"""What may be kept without a judgement: the level holds where wrong pairs are like the made-up ones that fit."""

import numpy as np
import pytest

from noisyir.detection.combine import Scores
from noisyir.detection.guarantee import guarantee_by_null, guaranteed_by_null
from tests.unit.detection.test_guarantee import is_broken

AUDITS, DRAWS = 1000, 9


def audit(rng, count, rate, hard=0.0, gap=4.0):
    """Scores with one null, and which pairs are wrong: queries differ, and wrong ones have the harder ones."""
    level, spread = rng.normal(size=count), rng.uniform(0.5, 1.5, count)
    odds = np.exp(hard * level)
    wrong = rng.random(count) < np.minimum(rate * count * odds / odds.sum(), 0.95)
    own = level + spread * (rng.standard_normal(count) - gap * ~wrong)
    made_up = level[:, None] + spread[:, None] * rng.standard_normal((count, DRAWS))
    return Scores(own, {"random": made_up}), wrong


@pytest.mark.parametrize("hard", [0.0, 1.0])
def test_the_bound_is_broken_in_at_most_the_stated_share_of_audits(hard):
    rng, broken = np.random.default_rng(0), 0
    for _ in range(AUDITS // 2):
        pairs, wrong = audit(rng, 400, 0.25, hard)
        broken += is_broken(guaranteed_by_null(pairs, "random"), pairs.observed, wrong)
    assert broken / (AUDITS // 2) <= 0.1


def test_it_keeps_most_of_the_right_pairs_where_there_are_enough():
    pairs, wrong = audit(np.random.default_rng(1), 3000, 0.25)
    found = guaranteed_by_null(pairs, "random")
    kept, bound = found.most(0.05)
    assert kept > 0.6 * 3000 and bound <= 0.05 and found.judged == 0
    assert not is_broken(found, pairs.observed, wrong)


def test_the_bound_of_one_order_is_exact():
    """Three wrong pairs and four made-up ones in random order: counted by hand."""
    made_up = np.array([[2.5], [20.0], [30.0], [40.0]])
    kept, bound = guarantee_by_null(np.arange(10.0), made_up, 0.3, 0.75, sizes=10)
    # looked at are the places before 0, 1, 2, 3 and 4 made-up ones, each at a risk of 0.15: before none of them
    # come more than 1 of the wrong with the chance 3/7 * 2/6 = 0.143, before one of them more than 2 with 4/35
    most = dict(zip(kept.tolist(), np.rint(bound * kept).tolist(), strict=True))
    assert most == {1: 1, 2: 1, 4: 2, 5: 2, 7: 2, 8: 2, 9: 2, 10: 2}
