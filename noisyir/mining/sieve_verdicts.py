"""The sieve's verdicts, as pure functions on flat arrays (one row a candidate).

A candidate stays if its loss is at least the mean loss of its query's pool, the positive included (Wang et al., AAAI
2024, Algorithm 1).  The loss is lse - s, and lse is the pool's: so it stays if its score is at most the pool's mean
score, and neither softmax nor temperature has a part in it.
"""

import numpy as np
from jaxtyping import Float

from noisyir.mining.candidates import Mask, Rows, Scores


def pool_means(score: Scores, query: Rows, positive_score: Float[np.ndarray, " query"]) -> Scores:
    """For each candidate the mean score of its query's pool: all of the query's candidates and its positive.

    query: the number of each candidate's query, 0 to queries - 1.  Summed in float64 and rounded to float32, as
    scores are; so in a pool of equal scores it is that score.
    """
    count = len(positive_score)
    total = np.bincount(query, score, count) + positive_score
    mean = (total / (np.bincount(query, minlength=count) + 1)).astype(np.float32)
    bound: Scores = mean[query]
    return bound


def stays(score: Scores, bound: Scores) -> Mask:
    """Score <= bound, Algorithm 1's loss >= mean loss: ties stay, and with them pools of nothing but duplicates.

    The published code has a strict comparison, by which such a pool goes whole.
    """
    return score <= bound


def sieve_out_rate(keep: Mask) -> float:
    """The share of candidates that go; 0 where there are none."""
    return 1.0 - float(keep.mean()) if len(keep) else 0.0
