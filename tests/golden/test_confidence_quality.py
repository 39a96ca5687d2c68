"""How well confidences tell right from wrong, as arithmetic."""

import numpy as np
import pytest

from noisyir.evaluation.detection import confidence_quality

VALUES = np.array([0.5, 0.3, 0.2, 0.9, 0.1, 0.5, 0.5])
RIGHT = np.array([True, False, True, False, True, False, False])
START = np.array([0.2, 0.4, 0.4, 0.6, 0.4, 0.3, 0.7])
QUESTION = np.array([0, 0, 0, 1, 1, 2, 2])


def test_measures_of_three_questions():
    quality = confidence_quality(VALUES, START, RIGHT, QUESTION)
    # right .5 .2 .1 against wrong .3 .9 .5 .5: of 12 pairs 1 + 2/2 are above (.5 over .3, level with two .5)
    assert quality["auroc"] == pytest.approx((1 + 0.5 + 0.5) / 12)
    assert quality["auroc_within"] == pytest.approx((1 / 2 + 0) / 2)  # question 2 has no right one
    assert quality["right_first"] == pytest.approx((1 + 0) / 2)
    # at the start question 0 has (0 + 1/2) / 2 and question 1 has 0: differences 1/4 and 0, so t = 1 with one degree
    assert quality["p_value"] == pytest.approx(0.5)
    assert quality["contested"] == 2 and quality["true_rate"] == pytest.approx(3 / 7)


def test_equal_confidences_tell_nothing():
    level = confidence_quality(
        np.full(4, 0.25), np.full(4, 0.25), np.array([True, False, False, False]), np.zeros(4, int)
    )
    assert level["auroc"] == level["auroc_within"] == 0.5 and level["right_first"] == 0.25


def test_what_is_not_defined_is_absent():
    alone = confidence_quality(np.ones(2), np.ones(2), np.ones(2, bool), np.arange(2))
    assert alone == {"true_rate": 1.0, "contested": 0.0}
    assert confidence_quality(*np.ones((2, 0)), np.ones(0, bool), np.ones(0, int)) == {"contested": 0.0}


def test_the_order_of_instances_is_of_no_account():
    order = np.random.default_rng(0).permutation(len(VALUES))
    assert confidence_quality(VALUES[order], START[order], RIGHT[order], QUESTION[order]) == pytest.approx(
        confidence_quality(VALUES, START, RIGHT, QUESTION)
    )
