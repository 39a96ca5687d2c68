"""The report, the bench and a comparison in a real browser: narrow and wide, light and dark, and by axe's rules."""

import pytest

from noisyir.engine.store import Store
from noisyir.evaluation.pages.bench import render
from noisyir.evaluation.pages.settings import ReportParams
from tests.flows import test_audit_page
from tests.flows.test_audit_page import browser, faults, look, page  # noqa: F401 - fixtures
from tests.unit.evaluation.test_bench_page import PARAMS, bench
from tests.unit.evaluation.test_report import pools
from tests.unit.evaluation.world import report_folder

pytestmark = test_audit_page.pytestmark


def check_looks(page, path):  # noqa: F811
    """Open at each width and in each scheme, and closed once: all that a closed page shows, an open one shows too."""
    page.open(path)
    opened = [(width, scheme, True) for width in (390, 800, 1440) for scheme in ("light", "dark")]
    for width, scheme, details in [(390, "light", False), *opened]:
        page(f"document.querySelectorAll('details').forEach(one => one.open = {str(details).lower()})")
        look(page, width, scheme)
        assert faults(page) == [], (width, scheme, details)


def test_the_report_fits_and_opens_with_its_conclusion(page, store: Store):  # noqa: F811
    check_looks(page, report_folder(store) / "report.html")
    found = page("[...document.querySelectorAll('.conclusion')].map(one => one.textContent)")
    assert found and page("document.querySelector('.conclusion').getBoundingClientRect().bottom + scrollY") < 400
    assert page("document.querySelectorAll('#results > .scroll th').length") == 3, (
        "the system, the axis and the main measure"
    )


@pytest.mark.slow
def test_a_report_with_corrected_values_fits(page, store: Store, tmp_path):  # noqa: F811
    params = ReportParams(settings={"name": "small"}, corrected=str(pools(store, tmp_path)))
    check_looks(page, report_folder(store, params) / "report.html")


def test_the_bench_fits_and_opens_with_its_conclusion(page, tmp_path):  # noqa: F811
    path = tmp_path / "bench.html"
    path.write_text(render(PARAMS, bench()), encoding="utf-8")
    check_looks(page, path)
    (found,) = page("[...document.querySelectorAll('.conclusion')].map(one => one.textContent)")
    assert found == "At 50 % uniform noise, npc is better than dpr (RR@10 +0.070)."
