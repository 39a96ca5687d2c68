"""The paired randomisation test (Smucker, Allan and Carterette, CIKM 2007), against all signs there are."""

from itertools import product

import numpy as np
import pytest

from noisyir.eval.significance import randomisation_test


@pytest.mark.parametrize(
    "differences", [[1.0, 1.0, 1.0], [0.3, -0.1, 0.2, 0.4, -0.2, 0.1, 0.05], [0.0, 0.0, 0.5, 0.0], [-0.2, -0.1, 0.1]]
)
def test_the_p_value_is_the_share_of_all_signs_with_a_sum_as_large(differences):
    values = np.array(differences)
    exact = np.mean([np.dot(signs, values) >= values.sum() - 1e-12 for signs in product((-1, 1), repeat=len(values))])
    assert randomisation_test(values, 20_000, np.random.default_rng(0)) == pytest.approx(exact, abs=0.012)


def test_no_difference_and_no_number_are_no_gain():
    rng = np.random.default_rng(0)
    assert randomisation_test(np.zeros(10), 100, rng) == randomisation_test(np.full(10, np.nan), 100, rng) == 1.0
    assert randomisation_test(np.ones(50), 99, rng) == 0.01  # never 0: the observed signs are one of the draws
