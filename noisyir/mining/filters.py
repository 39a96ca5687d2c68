"""Filters: which candidates stay, as pure functions on flat arrays; they combine by `&`, before any sampler.

s-: score of query and candidate; s+: of query and positive.  What lies exactly on a bound stays.

Source: `mine_hard_negatives` of sentence-transformers 6; Moreira et al. (NV-Retriever), arXiv:2407.15831, section 3.2.
They agree where s+ >= 0.  For several positives the former takes the worst scored: `mine.positive`.
"""

import numpy as np

from noisyir.mining.candidates import Candidates, Mask, Scores


def below(score: Scores, max_score: float) -> Mask:
    """s- <= max_score.  Their names: max_score; TopK-Abs."""
    return score <= np.float64(max_score)


def below_margin(score: Scores, positive_score: Scores, margin: float) -> Mask:
    """s- <= s+ - margin.  Their names: absolute_margin; TopK-MarginPos."""
    return score.astype(np.float64) + margin <= positive_score


def below_share(score: Scores, positive_score: Scores, margin: float) -> Mask:
    """s- <= s+ - margin |s+|.  Their names: relative_margin; TopK-PercPos, whose 95 % is a margin of 0.05.

    NV-Retriever writes s- <= 0.95 s+, which for s+ < 0 would keep what scores above the positive.
    """
    positive = positive_score.astype(np.float64)
    return score <= positive - margin * np.abs(positive)


def angle(candidates: Candidates) -> Scores:
    """|arccos cos(q, d+) - arccos cos(q, d-)| in degrees: no angle of the triangle, but the difference of two.

    Source: TriSampler, Eq. 4, which bounds it by 60.  Where s- is near s+, as Eq. 5 wants it, it is near 0.
    """
    to_candidate, to_positive, _ = candidates.cosines()
    degrees: Scores = np.degrees(np.abs(np.arccos(to_positive) - np.arccos(to_candidate)))
    return degrees


def not_near(candidates: Candidates, cosine: float) -> Mask:
    """cos(d+, d-) <= cosine; 0 where a vector is zero.

    What nearly repeats a positive is most likely one, whatever it scores.  Ours.
    """
    _, _, to_positive = candidates.cosines()
    return to_positive <= np.float64(cosine)


def distance(candidates: Candidates, weight: float) -> Scores:
    """cos(q, d+) - cos(q, d-) + weight (1 - cos(d+, d-)): 0 at the positive, the smaller the likelier relevant.

    A candidate is relevant if it is near the query as the positive is, or near the positive; margins on s- see the
    first alone.  The weight 1.5 was chosen on TREC DL 2019 (docs/mining.md).  Ours.
    """
    to_candidate, to_positive, between = candidates.cosines()
    apart: Scores = to_positive.astype(np.float64) - to_candidate + weight * (1.0 - between.astype(np.float64))
    return apart
