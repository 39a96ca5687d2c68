"""The posterior on judged candidates: calibrated on one year of TREC Deep Learning, it is calibrated on another."""

from pathlib import Path

import pytest

from bench.posterior import EVIDENCE, YEARS, candidates, quality

TREC_DL = Path(__file__).parents[2].parent / "shared" / "data" / "trec_dl"


@pytest.mark.slow
@pytest.mark.skipif(not TREC_DL.is_dir(), reason="TREC DL's judgements are not here")
@pytest.mark.parametrize(("backbone", "error", "precision"), [("static", 0.07, 0.36), ("transformer", 0.05, 0.53)])
def test_a_curve_drawn_by_one_years_judgements_is_calibrated_on_the_other(backbone, error, precision):
    """Bounds are of what was measured (docs/understand/posterior.md): the aim of .70 for the mean AP is missed."""
    years = {year: candidates(TREC_DL, year, backbone) for year in YEARS}
    for one, other in (YEARS, YEARS[::-1]):
        found = quality(years[one], years[other], EVIDENCE["BM25 and vectors"])
        assert found["calibration_error"] <= error and found["AP_query"] >= precision
