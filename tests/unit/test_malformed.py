"""A part of the campaign of malformed inputs, of every family; `make chaos` tries 400."""

from pathlib import Path

from tests.chaos.malformed import cases


def test_malformed_input_ends_in_one_line_that_names_place_and_remedy(tmp_path: Path):
    found = list(cases(0, 60, tmp_path))
    assert len(found) == 60
    assert [f"{case.name}: {case.fault}" for case in found if case.fault] == []
