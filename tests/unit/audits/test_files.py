"""CSV that spreadsheets can open, and that reads back."""

import csv
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.audits.files import write_csv
from noisyir.detection.spreadsheets import guard, unguard


@given(st.text(alphabet="'=+-@\t\r\na1", max_size=6))
def test_no_cell_starts_a_formula_and_every_cell_reads_back(text):
    (guarded,) = guard(pa.array([text])).to_pylist()
    assert not re.match(r"[=+\-@\t\r\n]", guarded)
    assert unguard(guarded) == text


@pytest.mark.parametrize("first", "=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")
def test_signs_that_a_spreadsheet_computes_with_are_guarded_full_width_ones_too(first):
    """Source: OWASP, CSV Injection."""
    assert guard(pa.array([f"{first}1+1"])).to_pylist() == [f"'{first}1+1"]
    assert unguard(f"'{first}1+1") == f"{first}1+1"


def test_csv_keeps_numbers_lists_nulls_and_every_character(tmp_path):
    path = tmp_path / "x.csv"
    texts = ["=1+1", "-2", "@x", "+3", "a,b", 'say "hi"', "two\nlines", "naïve", "'=", ""]
    rows = pa.table(
        {
            "text": texts,
            "number": pa.array([0.1, None, *[-1.5] * 8], pa.float32()),
            "list": pa.array([["a,b", '"'], *[[]] * 9]),
        }
    )
    write_csv([rows.slice(0, 4), rows.slice(4)], path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        read = list(csv.DictReader(file))
    assert [unguard(row["text"]) for row in read] == texts
    assert [row["number"] for row in read[:3]] == ["0.1", "", "-1.5"]
    assert [row["list"] for row in read[:2]] == ['["a,b", "\\""]', "[]"]
