"""Candidates of one query of which the scores are known and nothing else."""

import numpy as np

from noisyir.mining.candidates import Candidates


def scored(score, positive_score):
    rows = np.arange(len(score))
    return Candidates(0 * rows, rows, rows + 1, score, positive_score, *np.full((4, len(rows)), np.nan))
