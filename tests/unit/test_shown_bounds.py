"""The bench of stated bounds: that it looks at what the audit states, and calls a bound broken that is."""

from dataclasses import replace

import numpy as np
import pytest

from bench import shown_bounds
from bench.cleaning import cleaned
from bench.scored_sets import ScoredPairs
from bench.shown_bounds import Held, cell, is_below, of_draw, shares, true_gain
from noisyir.detection.calibration.logistic import JudgedPairs, learn


def pairs(wrong=0.3, count=600, seed=0):
    rng = np.random.default_rng(seed)
    is_wrong = rng.random(count) < wrong
    ids = np.array([(f"q{n // 2}", f"d{n}") for n in range(count)])
    features = np.column_stack([rng.normal(2 * is_wrong), rng.normal(size=count)])
    better = np.array([f"d{n}b" for n in range(count)])
    return ScoredPairs(ids, rng.normal(is_wrong), features, is_wrong, better, is_wrong)


def test_every_bound_that_is_stated_is_looked_at():
    found = [one for seed in range(8) for one in of_draw(pairs(), [30, 120], seed)]
    assert {one.bound for one in found} == set(shown_bounds.LEVELS)
    assert {one.judged for one in found if one.bound == "kept"} == {30, 120}
    assert all(0.7 < times / of for times, of in shares(found).values())


def test_of_right_pairs_alone_only_the_bounds_that_have_a_truth_are_looked_at():
    found = list(of_draw(pairs(wrong=0.0), [30], 0))
    assert all(one.held for one in found) and {"order", "gain", "sensitivity"}.isdisjoint(one.bound for one in found)


def test_an_interval_that_is_too_narrow_is_found_out(monkeypatch):
    told = shown_bounds.judge_all

    def sure(*given):
        found = told(*given)
        return replace(found, rate=found.rate._replace(low=found.rate.value, high=found.rate.value))

    monkeypatch.setattr(shown_bounds, "judge_all", sure)
    found = [one for seed in range(8) for one in of_draw(pairs(), [30], seed)]
    assert cell(shares(found), "rate while judging").endswith("✗") and not cell(shares(found), "kept").endswith("✗")


def test_the_true_gain_is_of_the_model_that_was_stated():
    of = pairs()
    rows = np.random.default_rng(1).permutation(600)[:150]
    answers = JudgedPairs(rows, of.is_wrong[rows], np.ones(150))
    lesson = learn(of.scores, of.features, of.query, answers)
    assert true_gain(of, answers, lesson) == pytest.approx(lesson.gain.value, abs=0.15)
    with pytest.raises(AssertionError):
        true_gain(of, answers, replace(lesson, gain=lesson.gain._replace(value=0.9)))


def test_a_cell_is_the_worst_of_its_numbers_of_judgements():
    held = [
        Held("kept", judged, ok)
        for judged, times in ((30, 190), (100, 180))
        for ok in [1] * times + [0] * (200 - times)
    ]
    assert cell(shares(held), "kept") == "90.0%" and cell(shares(held), "order") == "-"
    assert not is_below(180, 200, 0.9) and is_below(160, 200, 0.9)


def test_cleaning_counts_what_people_named_apart_from_what_nobody_saw():
    found = cleaned(pairs(count=300), 100, 0)
    assert found.by_people > 10, "of a wrong pair the right document is named"
    assert found.unseen >= found.right + found.mended >= 0
