"""A part of the campaign of malformed inputs, of every family; `make chaos` tries 400."""

from pathlib import Path

import pytest

from tests.chaos.malformed import cases


@pytest.mark.timeout(1800)  # each trial has its own limit, of CPU seconds; this one is for a machine that is overrun
def test_malformed_input_ends_in_one_line_that_names_place_and_remedy(tmp_path: Path):
    found = list(cases(0, 36, tmp_path))
    assert len(found) == 36
    assert [f"{case.name}: {case.fault}" for case in found if case.fault] == []
