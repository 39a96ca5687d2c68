"""A few trials of every family of the campaign; `make chaos` makes hundreds, `-m slow` ten minutes of them."""

from importlib import import_module

import pytest

from tests.chaos.__main__ import FAMILIES

OURS = tuple(family for family in FAMILIES if family != "malformed")  # which has tests of its own


def faults(family: str, count: int, folder, *more) -> list[tuple[str, str]]:
    """(trial, what was wrong) of those that were not fine."""
    found = list(import_module(f"tests.chaos.{family}").cases(count, count, folder, *more))
    assert len(found) == count
    return [(case.name, case.fault) for case in found if case.fault is not None]


def test_a_store_that_is_damaged_is_healed(tmp_path):
    assert faults("flips", 2, tmp_path, ("retriever",)) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("family", "count"),
    [
        ("flips", 60),
        ("truncations", 60),
        ("kills", 24),
        ("gc", 12),
        ("gc_widened", 4),
        ("disk_full", 10),
        ("s3", 10),
        ("nodes", 6),
        ("fuzz", 16),
        ("serving", 60),
    ],
)
def test_a_subset_of_the_campaign(family, count, tmp_path):
    assert faults(family, count, tmp_path) == []


@pytest.mark.parametrize("family", OURS)
def test_every_family_is_there(family):
    assert callable(import_module(f"tests.chaos.{family}").cases)
