"""How well confidences tell rightly labelled instances from wrong ones, given which passages are right."""

import numpy as np
from jaxtyping import Bool, Float, Int

Array = np.ndarray


def confidence_quality(
    values: Float[Array, " instance"], is_right: Bool[Array, " instance"], question: Int[Array, " instance"]
) -> dict[str, float]:
    """Measures of one update's confidences; undefined ones are absent.

    auroc: probability that a right instance is above a wrong one, ties half, of all questions together.
    auroc_within: the same within a question, its mean over the questions that have both kinds: a question's
    confidences add up to 1, so that those of questions with many instances are low, right or wrong.  right_first: in
    which share of these questions the highest confidence is a right instance's; of equal ones each counts its part.
    true_rate: the share of right instances; contested: the number of questions with both kinds.
    """
    from sklearn.metrics import roc_auc_score

    quality = {"true_rate": float(is_right.mean())} if len(is_right) else {}
    if len(np.unique(is_right)) == 2:
        quality["auroc"] = float(roc_auc_score(is_right, values))
    within, first = [], []
    order = np.argsort(question, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(question[order])) + 1):
        if len(rows) and 0 < is_right[rows].sum() < len(rows):
            within.append(float(roc_auc_score(is_right[rows], values[rows])))
            first.append(float(is_right[rows][values[rows] == values[rows].max()].mean()))
    if within:
        quality |= {"auroc_within": float(np.mean(within)), "right_first": float(np.mean(first))}
    return {**quality, "contested": float(len(within))}
