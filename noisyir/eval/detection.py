"""How well wrong pairs were found, given which are wrong."""

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray


def detection_quality(
    scores: Float[Array, " pair"], is_clean: Bool[Array, " pair"], is_wrong: Bool[Array, " pair"]
) -> dict[str, float]:
    """Measures of verdicts and of the ranking by score; wrong pairs are to be found.  Undefined ones are absent.

    auroc: probability that a wrong pair scores higher than a clean one, ties half.  average_precision: of the ranking,
    highest score first.  precision, recall, f1, accuracy: of the verdicts.  flagged, true_rate: the shares of pairs
    called wrong and of wrong pairs.  Source: Manning, Raghavan and Schütze, 2008, chapter 8; Fawcett, 2006 (AUROC).
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    flagged = ~is_clean
    found, called, wrong = int((flagged & is_wrong).sum()), int(flagged.sum()), int(is_wrong.sum())
    quality = {
        "accuracy": float((flagged == is_wrong).mean()),
        "flagged": float(flagged.mean()),
        "true_rate": float(is_wrong.mean()),
    }
    if wrong:
        quality["average_precision"] = float(average_precision_score(is_wrong, scores))
        quality["recall"] = found / wrong
    if 0 < wrong < len(is_wrong):
        quality["auroc"] = float(roc_auc_score(is_wrong, scores))
    if called:
        quality["precision"] = found / called
    if called + wrong:
        quality["f1"] = 2 * found / (called + wrong)
    return quality
