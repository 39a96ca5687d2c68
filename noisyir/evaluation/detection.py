"""Measures of detection, and of confidences in labels, against the truth."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.detection.calibration.logistic import auroc
from noisyir.evaluation.negatives import query_average_precision
from noisyir.evaluation.significance import crossed_t_test

Array = np.ndarray
Values = Float[Array, " instance"]
Rights = Bool[Array, " instance"]
Questions = Int[Array, " instance"]


def detection_quality(
    scores: Float[Array, " pair"], is_clean: Bool[Array, " pair"], is_wrong: Bool[Array, " pair"]
) -> dict[str, float]:
    """Measures of finding wrong pairs by score and by verdict; undefined ones are absent.

    auroc and average_precision are of the ranking, highest score first; precision, recall, f1 and accuracy of the
    verdicts; flagged and true_rate are the shares of pairs called wrong and of wrong pairs.

    Source: Manning, Raghavan and Schütze, 2008, chapter 8; Fawcett, 2006 (AUROC).
    """
    flagged = ~is_clean
    found, called, wrong = int((flagged & is_wrong).sum()), int(flagged.sum()), int(is_wrong.sum())
    quality = {
        "accuracy": float((flagged == is_wrong).mean()),
        "flagged": float(flagged.mean()),
        "true_rate": float(is_wrong.mean()),
    }
    if wrong:
        mixed = query_average_precision(scores, is_wrong, np.zeros(len(scores), int))
        quality["average_precision"] = float(mixed[0]) if len(mixed) else 1.0
        quality["recall"] = found / wrong
    if ranking := auroc(scores, is_wrong):
        quality["auroc"] = ranking.value
    if called:
        quality["precision"] = found / called
    if wrong:
        quality["f1"] = 2 * found / (called + wrong)
    return quality


class Within(NamedTuple):
    """Measures of each question with right and wrong instances.

    Attributes:
        auroc: Probability that a right instance is above a wrong one, ties half.
        right_first: Share of right instances among those with the highest confidence.
    """

    auroc: Float[Array, " question"]
    right_first: Float[Array, " question"]


def within_questions(values: Values, is_right: Rights, question: Questions) -> Within:
    """How well each question's confidences put its right instances above its wrong ones."""
    order = np.argsort(question, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(question[order])) + 1)
    contested = [rows for rows in groups if 0 < is_right[rows].sum() < len(rows)]
    return Within(
        np.array([_chance_above(values[rows][is_right[rows]], values[rows][~is_right[rows]]) for rows in contested]),
        np.array([is_right[rows][values[rows] == values[rows].max()].mean() for rows in contested]),
    )


def confidence_quality(values: Values, start: Values, is_right: Rights, question: Questions) -> dict[str, float]:
    """Measures of one update's confidences; undefined ones are absent.

    auroc pools all questions.  auroc_within and right_first are means over the contested questions, which have right
    and wrong instances, because a question's confidences sum to 1 and are low if it has many instances.  p_value is of
    a paired t-test of auroc_within against the start; true_rate is the share of right instances.
    """
    quality = {"true_rate": float(is_right.mean())} if len(is_right) else {}
    if ranking := auroc(values, is_right):
        quality["auroc"] = ranking.value
    within, before = (within_questions(each, is_right, question) for each in (values, start))
    if len(within.auroc):
        quality |= {"auroc_within": float(within.auroc.mean()), "right_first": float(within.right_first.mean())}
        quality["p_value"] = crossed_t_test((within.auroc - before.auroc)[:, None]).p_value
    return {**quality, "contested": float(len(within.auroc))}


def _chance_above(right: Float[Array, " one"], wrong: Float[Array, " other"]) -> float:
    """The probability that a right one is above a wrong one, ties half."""
    above, level = right[:, None] > wrong[None, :], right[:, None] == wrong[None, :]
    return float((above + 0.5 * level).mean())
