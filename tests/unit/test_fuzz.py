"""Two seconds of made-up bytes for every reader of outside bytes, and all finds of the past; `make chaos` goes on."""

import pytest

from noisyir.base.errors import DataError
from tests.chaos import fuzz

EXAMPLES = {"formats": 60, "journal": 60, "judging.json": 100, "yaml": 40, "reply": 60, "kept answers": 100,
            "body": 40}  # fmt: skip


@pytest.mark.parametrize("name", fuzz.READERS)
def test_a_reader_ends_well_or_in_an_error_of_its_own(name: str, tmp_path):
    assert (fuzz.CORPUS / name).is_dir(), "each reader has finds, or sound input, to begin with"
    assert fuzz.batch(name, 0, EXAMPLES[name], tmp_path) is None


def test_a_fault_is_found_and_told_by_its_smallest_example(tmp_path, monkeypatch):
    def read(data: bytes, folder) -> None:
        if b"\xff" in data:
            raise KeyError("a bug")
        raise DataError("fine")

    monkeypatch.setitem(fuzz.READERS, "yaml", fuzz.READERS["yaml"]._replace(read=read))
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path)
    found = fuzz.batch("yaml", 1, 500, tmp_path / "x")
    assert found is not None and found.startswith("KeyError: 'a bug', of b") and "\\xff" in found
    (case,) = fuzz.cases(3, 1, tmp_path / "y")
    assert case.name == "formats 3" and case.fault is None
