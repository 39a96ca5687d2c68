"""`detect`: scores in, verdicts and estimates out, for every method."""

import numpy as np
import pytest

from noisyir.base.errors import DataError
from noisyir.detection.combine import Scores
from noisyir.detection.settings import DetectParams
from noisyir.detection.verdicts import detect

METHODS = ["gmm", "beta", "null"]
MIXTURE = {f"{name}_{what}" for name in ("clean", "noisy") for what in ("weight", "mean", "std")}


def pair_losses(count, rate, seed=0):
    """Losses like those of a bi-encoder among 512 random documents: near 0 for most clean pairs."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(count) < rate
    others = np.log(511) + 20 * 0.1 + 1.6 + rng.normal(0, 0.3, count)
    similarity = np.where(wrong, rng.normal(0.1, 0.09, count), rng.normal(0.55, 0.15, count))
    null = np.logaddexp(20 * (made_up := rng.normal(0.1, 0.09, (count, 9))), others[:, None]) - 20 * made_up
    scores = np.logaddexp(20 * similarity, others) - 20 * similarity
    return scores.astype(np.float32), null.astype(np.float32), wrong


def judged(scores, null, **params):
    return detect(Scores(scores, {"random": null}), DetectParams(**params))


@pytest.mark.parametrize("method", METHODS)
def test_half_of_the_pairs_wrong_are_found(method):
    scores, null, wrong = pair_losses(20_000, 0.5)
    found = judged(scores, null, method=method)
    assert (found.is_clean == ~wrong).mean() > {"gmm": 0.91, "beta": 0.96, "null": 0.96}[method]
    assert found.estimate["rate_low"] <= 0.5 <= found.estimate["rate_high"]
    assert found.estimate["rate"] == pytest.approx(0.5, abs=0.02)
    assert found.estimate["flagged"] == pytest.approx((~found.is_clean).mean())
    assert found.estimate["threshold"] == scores[found.is_clean].max() < scores[~found.is_clean].min()
    assert (MIXTURE <= set(found.estimate)) is (method != "null")
    np.testing.assert_array_equal(found.is_clean, found.p_clean >= np.float32(0.5))


def test_the_null_method_is_calibrated():
    scores, null, wrong = pair_losses(50_000, 0.3)
    p_wrong = 1 - judged(scores, null, method="null").p_clean
    assert p_wrong.mean() == pytest.approx(0.3, abs=0.015)
    for low, high in ((0.05, 0.3), (0.3, 0.7), (0.7, 0.95)):
        inside = (p_wrong > low) & (p_wrong < high)
        assert inside.sum() > 200
        assert wrong[inside].mean() == pytest.approx(p_wrong[inside].mean(), abs=0.08)


@pytest.mark.parametrize("method", METHODS)
def test_without_noise_nothing_is_flagged_though_two_gaussians_fit_better_than_one(method):
    scores, null, _ = pair_losses(20_000, 0.0)
    found = judged(scores, null, method=method)
    assert found.is_clean.all()
    assert found.estimate["rate"] < 0.02 and found.estimate["flagged"] == 0
    if method == "gmm":
        believed = {"method": method, "min_rate": 0.0, "assume": "best"}
        assert judged(scores, null, **believed).is_clean.all(), "one peak"
        assert not judged(scores, null, **believed, components="bic").is_clean.all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pairs", [100, 1000, 10_000])
def test_scores_without_information_flag_nothing(method, pairs):
    """Less than one pair in a hundred over 100 seeds, and no chance is given."""
    flagged = []
    for seed in range(100 if method == "null" else 10):
        rng = np.random.default_rng(seed)
        found = judged(rng.normal(size=pairs), rng.normal(size=(pairs, 9)), method=method)
        flagged.append((~found.is_clean).mean())
        assert (found.p_clean is None) is bool(found.is_clean.all())
    assert np.mean(flagged) < 0.01


def test_what_is_assumed_is_taken_whatever_the_scores_say():
    rng = np.random.default_rng(0)
    scores, null = rng.normal(size=500), rng.normal(size=(500, 9))
    assert judged(scores, null).p_clean is None
    assert (
        judged(scores, null, assume="random").p_clean is not None
        and judged(scores, null, assume="best").p_clean is not None
    )
    with pytest.raises(
        DataError, match="assume=near: there are no made-up pairs of this kind; there are some of random"
    ):
        judged(scores, null, assume="near")


@pytest.mark.parametrize("method", METHODS)
def test_a_higher_threshold_flags_more(method):
    scores, null, _ = pair_losses(5000, 0.4)
    flagged = [judged(scores, null, method=method, threshold=t).estimate["flagged"] for t in (0.05, 0.5, 0.95)]
    assert flagged[0] < flagged[1] < flagged[2]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scores", [[1.0], [1.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 0.0, 9.0, 9.0]])
def test_a_handful_of_pairs_is_judged_without_complaint(method, scores):
    found = judged(np.array(scores, np.float32), np.full((len(scores), 1), 9.5, np.float32), method=method)
    assert found.is_clean.all() and np.isfinite(list(found.estimate.values())).all()


def test_where_no_pair_is_clean_there_is_no_threshold():
    found = judged(np.full(100, 5.0), np.full((100, 9), 5.0), method="null", assume="best")
    assert not found.is_clean.any() and "threshold" not in found.estimate and found.estimate["flagged"] == 1


def test_scores_that_are_not_numbers_are_refused_by_name():
    scores, draws = np.arange(100.0), np.arange(300.0).reshape(100, 3)
    with pytest.raises(DataError, match=r"^score: 2 of 100 values"):
        Scores(np.where(scores < 2, np.nan, scores), {})
    with pytest.raises(DataError, match=r"^near_scores: 2 values are infinite"):
        Scores(scores, {"random": draws, "near": np.where(draws < 2, np.inf, draws)})
    Scores(scores, {"near": np.where(draws < 2, np.nan, draws)})  # a pair that has no such document


def test_no_pairs_is_an_error():
    with pytest.raises(DataError, match="no pairs"):
        judged(np.empty(0), np.empty((0, 1)))
