"""The gate of promotion: its arithmetic and each reason to refuse; `test_type_one` measures how often it errs."""

import dataclasses
import math
import re

import numpy as np
import pytest

from noisyir.base.errors import ConfigError
from noisyir.evaluation.promotion import VersionMetrics, chosen_measure, rule, spending
from noisyir.evaluation.settings import PromoteParams
from noisyir.evaluation.significance import guarded_interval
from tests.refusals import refuses

QUERIES = [f"q{number:03}" for number in range(100)]
BASE = np.tile([0.0, 0.25, 0.5, 0.75], 25)
LUCK = (-0.001, 0.0, 0.001)  # of three seeds


def measured(version, values=BASE, digest="same", queries=QUERIES, luck=LUCK, **about):
    by_seed = {str(seed): dict(zip(queries, values + shift, strict=True)) for seed, shift in enumerate(luck)}
    return VersionMetrics(version, "noisyir run made", digest, f"recipe {version}", by_seed, **about)


def judge(challenger, champion, look=1, forced=False, **params):
    return rule(challenger, champion, PromoteParams(**params), look=look, forced=forced)


def test_a_gain_beyond_threshold_and_chance_is_promoted_and_its_numbers_are_the_arithmetic_ones():
    better = BASE + np.tile([0.1, 0.0], 50)  # the mean of the differences is (50 * 0.1 + 50 * 0) / 100
    ruling = judge(measured("2", better, luck=(0.0, 0.0, 0.003)), measured("1"), min_gain=0.04)
    found = ruling.numbers
    assert ruling.promoted and ruling.reasons == ()
    assert (found.queries, found.seeds, found.look) == (100, 3, 1)
    assert (found.mean, found.champion_mean) == (pytest.approx(0.375 + 0.05 + 0.001), pytest.approx(0.375))
    assert found.gain == pytest.approx(0.051) and found.spread == pytest.approx(0.001)  # gains .051, .05, .052
    assert found.error_rate == pytest.approx(0.025 * 6 / math.pi**2)
    differences = np.add(np.tile(better - BASE, (3, 1)).T, (0.001, 0.0, 0.002))
    expected = guarded_interval(differences, found.error_rate)
    assert (found.low, found.high, found.p_value) == pytest.approx(expected[1:])


def test_the_order_of_the_queries_is_of_no_account():
    better = BASE + np.tile([0.1, 0.0], 50)
    straight = measured("2", better)
    turned = {seed: dict(reversed(values.items())) for seed, values in straight.values.items()}
    assert judge(dataclasses.replace(straight, values=turned), measured("1")) == judge(straight, measured("1"))


def test_the_looks_spend_the_error_rate_and_no_more():
    spent = [spending(0.025, look) for look in range(1, 10_001)]
    assert spent == sorted(spent, reverse=True) and 0.0249 < sum(spent) < 0.025


CHANCE = "the gain may be chance: its interval over queries and 3 seeds, "


@pytest.mark.parametrize(
    ("gains", "params", "reasons"),
    [
        ([0.012], {"min_gain": 0.02}, ["the gain +0.0120 is not above min_gain=0.02"]),
        ([0.9, -0.88], {}, [CHANCE]),
        ([-0.05], {}, ["the gain -0.0500 is not above min_gain=0", CHANCE]),
        ([0.0], {}, ["the gain +0.0000 is not above min_gain=0", CHANCE]),
        ([float("nan")], {}, ["the gain +nan is not above", CHANCE]),
    ],
)  # fmt: skip
def test_every_condition_that_fails_is_a_reason(gains, params, reasons):
    challenger = measured("2", BASE + np.resize(gains, 100))
    ruling = judge(challenger, measured("1"), **{"min_gain": 0.0, **params})
    assert not ruling.promoted and len(ruling.reasons) == len(reasons)
    for said, wanted in zip(ruling.reasons, reasons, strict=True):
        assert said.startswith(wanted)


def test_a_refusal_by_one_seed_claims_no_seeds_and_no_error_rate():
    (reason,) = judge(measured("2", luck=(0.0,)), measured("1", luck=(0.0,)), min_seeds=1, min_gain=0.0).reasons[1:]
    assert "over queries alone" in reason and reason.endswith("(one seed: the error rate is not kept)")


def test_a_gain_that_seeds_explain_is_refused_however_many_queries_agree():
    ruling = judge(measured("2", BASE + 0.05, luck=(-0.06, 0.0, 0.06)), measured("1"))
    assert not ruling.promoted and ruling.reasons[0].startswith(CHANCE)


def test_who_tries_often_must_gain_more():
    challenger = measured("2", BASE + np.tile([0.4, -0.2, 0.2, 0.0], 25), luck=(0.0, 0.01, 0.02))
    assert judge(challenger, measured("1")).promoted
    late = judge(challenger, measured("1"), look=20)
    assert not late.promoted and "(comparison 20 by these queries, at an error rate of 3.8e-05)" in late.reasons[0]


def test_queries_of_one_document_are_one_draw():
    gains = np.repeat(np.tile([0.3, -0.1], 5), 10)
    alone = measured("2", BASE + gains)
    together = dataclasses.replace(alone, groups={query_id: f"d{n // 10}" for n, query_id in enumerate(QUERIES)})
    assert judge(alone, measured("1")).promoted and not judge(together, measured("1")).promoted


def test_too_few_common_seeds_are_refused_before_anything_is_tested():
    ruling = judge(measured("2", BASE + 0.1, luck=(0.0,)), measured("1"))
    assert not ruling.promoted and ruling.numbers is None
    assert ruling.reasons[0].startswith("min_seeds=3, and both recipes have 1 in common (v2")
    assert ruling.reasons[0].endswith(", as noisyir run made seed=N and noisyir run made seed=N")
    alone = judge(measured("2", BASE + np.tile([0.1, 0.0], 50), luck=(0.0,)), measured("1"), min_seeds=1)
    assert alone.promoted and "the error rate is not kept" in alone.reasons[0] and alone.numbers.spread is None


def test_another_seed_of_the_champions_recipe_is_no_challenger():
    one = measured("1")
    ruling = judge(dataclasses.replace(one, version="2"), one)
    assert ruling.reasons == ("v2 and the champion v1 have one recipe and differ by their seed alone, which is chance",)


@pytest.mark.parametrize("champion", [None, measured("1")])
def test_what_is_no_better_than_a_floor_takes_force(champion):
    challenger = measured("2", BASE + np.tile([0.1, 0.2], 50), floors={"bm25": 0.7, "zero_shot": math.nan})
    ruling = judge(challenger, champion)
    below = "it is no better than bm25: 0.5250 and 0.7000"
    assert not ruling.promoted and ruling.reasons == (f"{below} (--force promotes it nevertheless)",)
    forced = judge(challenger, champion, forced=True)
    assert forced.promoted and forced.reasons[-2:] == (below, "zero_shot was not measured with it")
    worse = judge(dataclasses.replace(challenger, values=measured("2", BASE - 0.1).values), measured("1"), forced=True)
    assert not worse.promoted, "force is for floors alone"


def test_a_first_version_becomes_champion_unless_it_was_never_measured():
    ruling = judge(measured("1", floors={"bm25": 0.3}), None)
    assert ruling.promoted and ruling.reasons == ("there was no champion to compare with",)
    assert ruling.numbers.mean == pytest.approx(0.375) and ruling.numbers.gain is None
    ruling = judge(VersionMetrics("1", "noisyir run made", None, None, {}), None)
    assert not ruling.promoted and "noisyir run made data.promotion_share=0.5" in ruling.reasons[0]


@pytest.mark.parametrize(
    ("champion", "reason"),
    [
        (measured("1", digest="other"), r"^v2 and the champion v1 were measured by different data \(same and other\)"),
        (measured("1", digest=None), r"different data \(same and unknown\)"),
        (measured("1", queries=[f"p{n}" for n in range(100)]), "100 and 100 queries, and share 0"),
        (measured("1", BASE[:60], queries=QUERIES[:60]), "on 100 and 60 queries, and share 60"),
        (VersionMetrics("1", "made", "same", "r", {}), "^v1 has no values of this measure.*; it is the champion"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(champion, reason):
    ruling = judge(measured("2", BASE + 0.2), champion)
    assert not ruling.promoted and ruling.numbers is None
    assert re.search(reason, ruling.reasons[0])


def test_a_truly_better_recipe_is_promoted():
    rng = np.random.default_rng(0)
    gains = rng.choice([0.0, 0.5], 100, p=[0.8, 0.2])
    assert judge(measured("2", BASE + gains), measured("1")).promoted


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
    with refuses(ConfigError, "evaluation.measure_not_measured", wanted="nDCG@1"):
        chosen_measure(["R@100", "nDCG@10"], "nDCG@1", "nDCG@10")
