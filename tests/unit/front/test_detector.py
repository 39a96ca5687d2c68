"""NoiseDetector keeps scikit-learn's manners, and says what the audit would."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from noisyir import NoiseDetector
from noisyir.base.errors import DataError
from noisyir.detection.combine import Scores, combined
from noisyir.detection.settings import DetectParams
from noisyir.detection.verdicts import detect
from tests.refusals import refuses

RNG = np.random.default_rng(0)
WRONG = np.arange(1000) >= 700
SCORES = RNG.normal(np.where(WRONG, 5.0, 0.0), 1.0)
DRAWS = RNG.normal(5.0, 1.0, (1000, 10))
FLAT = "a flat list is one score a pair: scikit-learn would have people reshape it"


@parametrize_with_checks(
    [NoiseDetector()], expected_failed_checks=lambda _: {"check_fit1d": FLAT, "check_fit2d_predict1d": FLAT}
)
def test_it_passes_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_says_what_detection_says():
    found = detect(Scores(SCORES, {"random": DRAWS}), DetectParams())
    detector = NoiseDetector().fit(SCORES, null=DRAWS)
    np.testing.assert_allclose(detector.predict_proba(SCORES)[:, 0], found.p_clean, atol=1e-6)
    np.testing.assert_array_equal(detector.predict(SCORES) == 0, found.is_clean)
    assert detector.estimate_ == found.estimate


def test_a_rate_is_a_range_and_never_a_number():
    detector = NoiseDetector().fit(SCORES, null=DRAWS)
    assert detector.rate_.value is None
    assert detector.rate_.low <= 0.3 <= detector.rate_.high < 0.4
    assert "not known without judgements" in str(detector.rate_)
    nothing = NoiseDetector().fit(SCORES).rate_
    assert (nothing.value, nothing.low, nothing.high) == (None, 0.0, 1.0)


@pytest.mark.parametrize("how", [{"null": DRAWS}, {"null": DRAWS.ravel()}, {"null": {"random": DRAWS}}, {}])
def test_wrong_pairs_are_found_with_made_up_ones_and_without(how):
    flagged = NoiseDetector(assume="random" if how else None).fit(SCORES, **how).predict(SCORES).astype(bool)
    assert (flagged == WRONG).mean() > 0.97


def test_several_scores_are_added_up_as_detectors_are_and_new_pairs_alike():
    other = RNG.normal(0, 1, 1000)
    scores, draws = np.column_stack([SCORES, other]), np.stack([DRAWS, RNG.normal(0, 1, DRAWS.shape)], axis=2)
    both = combined([Scores(SCORES, {"random": DRAWS}), Scores(other, {"random": draws[:, :, 1]})])
    detector = NoiseDetector().fit(scores, null=draws)
    assert detector.weights_[0] > 3 * detector.weights_[1]
    found = detect(both, DetectParams()).p_clean
    np.testing.assert_allclose(detector.predict_proba(scores)[:, 0], found, atol=1e-6)
    np.testing.assert_allclose(detector.predict_proba(scores[::7]), detector.predict_proba(scores)[::7])


def test_nothing_is_flagged_where_hardly_any_pair_looks_wrong():
    assert NoiseDetector().fit(SCORES[:700], null=DRAWS[:700] + 3).predict([[9.0]]).tolist() == [0]


def test_settings_survive_a_clone_and_a_pipeline():
    detector = NoiseDetector("beta", threshold=0.7)
    assert clone(detector).get_params() == {
        "method": "beta", "threshold": 0.7, "min_rate": 0.02, "components": "dip", "assume": None,
    }  # fmt: skip
    piped = make_pipeline(StandardScaler(), NoiseDetector()).fit(SCORES[:, None])
    assert (piped.predict(SCORES[:, None]) == WRONG).mean() > 0.97


def test_what_is_missing_or_of_another_shape_is_said():
    with pytest.raises(NotFittedError):
        NoiseDetector().predict(SCORES)
    with refuses(DataError, "detection.method_null_goes_scores"):
        NoiseDetector("null").fit(SCORES)
    with refuses(DataError, "detection.null_shape_must", wanted="(1000, draws)"):
        NoiseDetector().fit(SCORES, null=DRAWS[:5])
    with refuses(DataError, "detection.null_no_kind", strangers="easy"):
        NoiseDetector().fit(SCORES, null={"easy": DRAWS})
    with pytest.raises(ValueError, match="NaN"):
        NoiseDetector().fit([1.0, np.nan])
