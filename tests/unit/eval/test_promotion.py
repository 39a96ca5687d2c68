"""The gate of promotion: its arithmetic, each reason to refuse, and how often it errs."""

import re

import numpy as np
import pytest
from scipy import stats

from noisyir.errors import ConfigError
from noisyir.eval.promotion import Measured, chosen_measure, rule, seed_spread
from noisyir.eval.settings import PromoteParams

QUERIES = [f"q{number:03}" for number in range(100)]
BASE = np.tile([0.0, 0.25, 0.5, 0.75], 25)
LOOSE = PromoteParams(min_gain=0.0, resamples=1000)


def measured(version, values=BASE, digest="same", queries=QUERIES):
    return Measured(version, digest, dict(zip(queries, values, strict=True)))


def judge(challenger, champion, seeds=(), **params):
    means = {str(number): mean for number, mean in enumerate(seeds)}
    return rule(challenger, champion, means, PromoteParams(**{"resamples": 1000, **params}), np.random.default_rng(0))


def test_a_gain_above_threshold_zero_and_spread_is_promoted_and_its_numbers_are_the_arithmetic_ones():
    better = BASE + np.tile([0.1, 0.0], 50)  # the mean of the differences is (50 * 0.1 + 50 * 0) / 100
    ruling = judge(measured("2", better), measured("1"), seeds=(0.40, 0.42, 0.44), min_gain=0.04)
    found = ruling.numbers
    assert ruling.promoted and ruling.reasons == ()
    assert (found.queries, found.seeds) == (100, 3)
    assert (found.mean, found.champion_mean) == (pytest.approx(0.375 + 0.05), pytest.approx(0.375))
    assert found.gain == pytest.approx(0.05) and found.spread == pytest.approx(0.02)  # sqrt((4 + 0 + 4) / 2) / 100
    # of 100 draws of 0.1 or 0, the mean has a standard error of 0.05 / 10
    assert found.low == pytest.approx(0.05 - 1.96 * 0.005, abs=0.002)
    assert found.high == pytest.approx(0.05 + 1.96 * 0.005, abs=0.002)


def test_the_order_of_the_queries_is_of_no_account():
    better = BASE + np.tile([0.1, 0.0], 50)
    turned = Measured("2", "same", dict(reversed(measured("2", better).values.items())))
    assert judge(turned, measured("1")) == judge(measured("2", better), measured("1"))


INTERVAL, CHANCE = "the 95% interval of the gain, ", "the gain may be chance: p "


@pytest.mark.parametrize(
    ("gains", "seeds", "params", "reasons"),
    [
        ([0.01], (), {"min_gain": 0.02}, ["the gain +0.0100 is not above min_gain=0.02"]),
        ([0.9, -0.88], (), {}, [INTERVAL, CHANCE]),
        ([0.05], (0.3, 0.5), {}, ["the gain +0.0500 is not above the seed spread 0.1414"]),
        ([0.05], (0.3,), {"min_seeds": 3}, ["seeds of these settings that are known: 1, and min_seeds=3"]),
        ([-0.05], (), {}, ["the gain -0.0500 is not above min_gain=0", INTERVAL, f"{CHANCE}1 is above 0.025"]),
        ([0.0], (), {}, ["the gain +0.0000 is not above min_gain=0", INTERVAL, f"{CHANCE}1 is above 0.025"]),
        ([float("nan")], (), {}, ["the gain +nan is not above", INTERVAL, f"{CHANCE}1 "]),
    ],
)  # fmt: skip
def test_every_condition_that_fails_is_a_reason(gains, seeds, params, reasons):
    challenger = measured("2", BASE + np.resize(gains, 100))
    ruling = judge(challenger, measured("1"), seeds, **{"min_gain": 0.0, **params})
    assert not ruling.promoted and len(ruling.reasons) == len(reasons)
    for said, wanted in zip(ruling.reasons, reasons, strict=True):
        assert said.startswith(wanted)


def test_an_unknown_seed_spread_is_said_and_does_not_refuse():
    ruling = judge(measured("2", BASE + 0.1), measured("1"), seeds=(0.4,))
    assert ruling.promoted and ruling.numbers.spread is None
    assert ruling.reasons == ("the seed spread is unknown: it takes two seeds of these settings, and 1 is known",)
    assert seed_spread({"0": 0.4}) is None and seed_spread({"0": 0.4, "1": 0.6}) == pytest.approx(0.2 / np.sqrt(2))


def test_an_interval_above_zero_is_not_enough_where_few_queries_differ():
    one_sided = np.array([0.3, 0.3, 0.3, 0.3, 0.3] + [0.0] * 95)  # by chance in 1 of 2^5 cases
    ruling = judge(measured("2", BASE + one_sided), measured("1"), seeds=(0.4, 0.401), min_gain=0.0)
    assert ruling.numbers.low > 0 and ruling.numbers.p_value == pytest.approx(1 / 32, abs=0.02)
    assert not ruling.promoted and re.match("the gain may be chance: p 0.0", ruling.reasons[0])


def test_a_first_version_becomes_champion_unless_it_was_never_measured():
    ruling = judge(measured("1"), None)
    assert ruling.promoted and ruling.reasons == ("there was no champion to compare with",)
    assert ruling.numbers.mean == pytest.approx(0.375) and ruling.numbers.gain is None
    ruling = judge(Measured("1", None, {}), None)
    assert not ruling.promoted and "v1 has no values of this measure and split" in ruling.reasons[0]


@pytest.mark.parametrize(
    ("champion", "reason"),
    [
        (measured("1", digest="other"), r"^v2 and the champion v1 were measured by different data \(same and other\)"),
        (measured("1", digest=None), r"different data \(same and unknown\)"),
        (measured("1", queries=[f"p{n}" for n in range(100)]), "^v2 and the champion v1 share no query"),
        (measured("1", BASE[:60], queries=QUERIES[:60]), "on 100 queries and the champion v1 on 60, .* they share 60"),
        (Measured("1", "same", {}), "^the champion v1 has no values of this measure and split"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(champion, reason):
    ruling = judge(measured("2", BASE + 0.2), champion)
    assert not ruling.promoted and ruling.numbers is None
    assert re.search(reason, ruling.reasons[0])


def reciprocal_ranks(rng, count):
    """As retrievers have them: many first, some lower, a good part not found at all."""
    ranks = rng.choice([1, 2, 3, 4, 5, 10, np.inf], count, p=[0.35, 0.15, 0.1, 0.05, 0.05, 0.1, 0.2])
    return 1.0 / ranks


def compared(rng, count, gain=0.0):
    """Values that differ on a third of the queries: of two that are equally good, or one better by `gain`."""
    champion, other = reciprocal_ranks(rng, count), reciprocal_ranks(rng, count)
    challenger = np.where(rng.random(count) < 1 / 3, other, champion)
    improved = rng.random(count) < gain / (1 - challenger.mean())
    return np.where(improved, 1.0, challenger), champion


def promotions(comparisons, count, gain=0.0):
    rng, queries = np.random.default_rng(20), [str(number) for number in range(count)]
    promoted = 0
    for _ in range(comparisons):
        values, before = compared(rng, count, gain)
        ruling = rule(measured("2", values, queries=queries), measured("1", before, queries=queries), {}, LOOSE, rng)
        promoted += ruling.promoted
    return promoted


@pytest.mark.parametrize(("comparisons", "queries"), [(1000, 30), (200, 100)])
def test_of_null_comparisons_no_more_are_promoted_than_the_stated_rate(comparisons, queries):
    promoted = promotions(comparisons, queries)  # at 30 queries an interval alone promotes 5.6 %
    assert promoted <= stats.binom.ppf(0.999, comparisons, LOOSE.error_rate)
    assert promoted > 0, "a gate that never errs at min_gain=0 was not tested"


def test_too_few_resamples_for_the_p_value_are_refused():
    with pytest.raises(ValueError, match=r"confidence=0\.999 takes at least 1,999"):
        PromoteParams(confidence=0.999, resamples=1000)
    assert PromoteParams(confidence=0.999, resamples=2000).error_rate == pytest.approx(0.0005)


def test_a_truly_better_model_is_promoted():
    assert promotions(40, 300, gain=0.1) >= 38


@pytest.mark.parametrize(
    ("names", "wanted", "preferred", "chosen"),
    [
        (["R@100", "nDCG@10"], None, "nDCG@10", "nDCG@10"),
        (["EM bm25", "F1 bm25", "F1 given"], None, "F1", "F1 bm25"),
        (["AnswerMatch@5", "AnswerMatch@20"], None, "nDCG@10", "AnswerMatch@5"),
        (["R@100", "nDCG@10"], "R@100", "nDCG@10", "R@100"),
    ],
)
def test_the_measure_is_the_one_asked_for_or_the_kinds_own_or_what_there_is(names, wanted, preferred, chosen):
    assert chosen_measure(names, wanted, preferred) == chosen


def test_a_measure_that_was_not_taken_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"'nDCG@1' was not measured \(did you mean nDCG@10\?\); there are"):
        chosen_measure(["R@100", "nDCG@10"], "nDCG@1", "nDCG@10")
