"""Cohen's kappa against scikit-learn's, and its interval by simulation."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from noisyir.base.errors import DataError
from noisyir.detection.judgements import cohens_kappa


def two_judges(rng, count, truth=0.4, error=0.15):
    wrong = rng.random(count) < truth
    return wrong ^ (rng.random(count) < error), wrong ^ (rng.random(count) < error)


def test_it_is_the_known_number():
    one, other = two_judges(np.random.default_rng(0), 60)
    found = cohens_kappa(one, other)
    assert found.value == pytest.approx(cohen_kappa_score(one, other))
    assert -1 <= found.low < found.value < found.high <= 1


def test_the_example_of_the_textbook():
    """Fleiss, Levin and Paik, 2003: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no have kappa .4."""
    one = np.repeat([True, True, False, False], [20, 5, 10, 15])
    other = np.repeat([True, False, True, False], [20, 5, 10, 15])
    assert cohens_kappa(one, other).value == pytest.approx(0.4)


def test_full_agreement_is_one_and_judges_of_one_word_say_nothing():
    said = np.arange(10) < 4
    assert cohens_kappa(said, said).value == pytest.approx(1)
    assert cohens_kappa(said, ~said).value < 0
    assert cohens_kappa(np.ones(5, bool), np.ones(5, bool)) is None
    with pytest.raises(DataError, match="in common"):
        cohens_kappa(np.empty(0, bool), np.empty(0, bool))


def test_the_interval_covers():
    rng = np.random.default_rng(0)
    truth = cohens_kappa(*two_judges(rng, 10**6)).value
    found = [cohens_kappa(*two_judges(rng, 100)) for _ in range(500)]
    assert 0.92 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.98
