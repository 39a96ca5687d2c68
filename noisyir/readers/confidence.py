"""How far each distantly labelled instance is believed (Bian et al., Findings of EMNLP 2023, Eq. 8 to 14).

Arrays run over instances; `question` numbers each one's question, from 0, in ascending order.  The confidences of a
question add up to 1, at the start and after every update.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.readers.settings import Confidence

Values = Float[np.ndarray, " instance"]
Questions = Int[np.ndarray, " instance"]


def initial(scores: Values, question: Questions) -> Values:
    """Each passage's retrieval score as a share of its question's (Eq. 8); equal shares where the sum is 0.

    A score below 0 counts as 0.
    """
    return shares(np.maximum(scores, 0.0), question)


def shares(values: Values, question: Questions) -> Values:
    """Values over the sum of their question's; equal shares where that is 0."""
    values = values.astype(np.float64)
    total, count = _sums(values, question), np.bincount(question).astype(np.float64)
    divisor = np.where(total > 0, total, 1.0)
    found: Values = np.where(total[question] > 0, values / divisor[question], 1.0 / count[question])
    return found


def updated(confidence: Values, evidence: Values, decay: float) -> Values:
    """Decay * w + (1 - decay) * z (Eq. 9; the paper's decay is 0.8)."""
    return decay * confidence + (1.0 - decay) * evidence


def evidence(
    kind: Confidence, chance: Values, matched: Bool[np.ndarray, " instance"], confidence: Values, question: Questions
) -> Values:
    """The model's belief in each instance, z (Eq. 10 to 14); a question's values add up to those of `confidence`.

    chance: P_start * P_end of the labelled span (Eq. 10), NaN where the model has not read the instance yet; matched:
    whether both ends are where the model's own lie.  Instances that are not read yet keep their confidence, and the
    others share out what is left.  So does a question of which none is matched (positive_average; Eq. 14 divides by
    0), or all chances are 0.
    """
    read = ~np.isnan(chance)
    known = np.where(read, chance, 0.0)
    marks = {
        "soft": known,
        "hard_max": _first_largest(np.where(read, chance, -1.0), question) & read,
        "positive_average": matched & read,
        "none": np.zeros(len(chance)),
    }[kind].astype(np.float64)
    total = _sums(marks, question)[question]
    left = _sums(np.where(read, confidence, 0.0), question)[question]
    divided = marks / np.where(total > 0, total, 1.0) * left
    return np.where(read & (total > 0), divided, confidence)


def _first_largest(values: Values, question: Questions) -> Bool[np.ndarray, " instance"]:
    """The first of each question's largest values."""
    order = np.lexsort((np.arange(len(values)), -values, question))
    _, first = np.unique(question[order], return_index=True)
    found = np.zeros(len(values), bool)
    found[order[first]] = True
    return found


def _sums(values: Values, question: Questions) -> Float[np.ndarray, " question"]:
    return np.bincount(question, weights=values)
