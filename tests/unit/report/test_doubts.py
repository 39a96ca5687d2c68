"""What is said against a trained model: it learned nothing, or BM25 is better; and of which model it is not said."""

import pytest

from noisyir.report.detection import doubts


def row(system, mean, baseline=None, difference=0.0, half=0.01):
    test = {"difference": difference, "difference_low": difference - half, "difference_high": difference + half}
    return {"system": system, "measure": "nDCG@10", "split": "test", "mean": mean, "baseline": baseline} | (
        test if baseline else {}
    )


def rows(start, dpr, bm25=0.1, half=0.01):
    return [
        row("bm25", bm25),
        row("zero_shot", start, "bm25", start - bm25, half),
        row("dpr", dpr, "bm25", dpr - bm25, half),
        row("dpr", dpr, "zero_shot", dpr - start, half),
    ]


@pytest.mark.parametrize("dpr", [0.40, 0.405, 0.39])
def test_a_model_that_is_not_better_than_its_start_beyond_chance_is_doubted(dpr):
    (said,) = doubts(rows(0.40, dpr))
    assert said.startswith("dpr is not better than the untrained model") and "train.learning_rate" in said


def test_a_better_model_is_not_doubted_unless_bm25_beats_it():
    assert doubts(rows(0.4, 0.5)) == []
    (said,) = doubts(rows(0.4, 0.5, bm25=0.6))
    assert "worse than BM25" in said and "0.500 against 0.600" in said


def test_equal_weights_are_said_whatever_was_measured():
    (said,) = doubts(rows(0.4, 0.5), unchanged=True)
    assert "has the weights of its start" in said


def test_nothing_is_said_of_what_was_not_run_or_has_no_start():
    assert doubts([]) == [] and doubts(rows(0.4, 0.4), "npc") == [] and doubts(rows(0.4, 0.4), "zero_shot") == []
    assert doubts([row("cds", 0.2)]) == []


def test_without_a_test_of_the_two_their_means_decide():
    known = [row("dpr", 0.4), row("zero_shot", 0.4), row("npc", 0.5)]
    assert doubts(known, "dpr") and doubts(known) == []
