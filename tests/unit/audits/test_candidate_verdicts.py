"""How sure judges are."""

import numpy as np

from noisyir.audits.candidate_verdicts import standing


def test_standing_is_the_share_of_smaller_margins():
    assert standing(np.array([0.1, -2.0, 0.1, 5.0])).tolist() == [1 / 4, 0, 1 / 4, 3 / 4]
    assert standing(np.array([])).tolist() == []
