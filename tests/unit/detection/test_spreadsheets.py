"""Judgements that went through a spreadsheet are found again, or the line says that ids changed."""

import csv
from pathlib import Path

import pyarrow as pa
import pytest

from noisyir.base.errors import DataError
from noisyir.detection.judgements import read_judgements

IDS = [(f"0000{n}", f"90071992547400{n}0") for n in range(1, 5)]
PAIRS = pa.table({"query_id": [one for one, _ in IDS], "doc_id": [other for _, other in IDS]})


def saved(folder: Path, rows: list[tuple[str, str]]) -> str:
    path = folder / "filled.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("query_id", "doc_id", "verdict"), *((*row, "clean") for row in rows)])
    return str(path)


@pytest.mark.parametrize(
    "changed",
    [
        lambda query, doc: (str(int(query)), doc),  # the zeros before it dropped
        lambda query, doc: (str(int(query)), f"{float(doc):.5E}"),  # and many digits shortened
        lambda query, doc: (str(int(query)), f"{float(doc):.2E}".replace(".", ",")),  # with a decimal comma
    ],
)
def test_pairs_are_found_by_ids_that_a_spreadsheet_took_for_numbers(tmp_path, changed):
    path = saved(tmp_path, [changed(*pair) for pair in reversed(IDS)])
    assert {*read_judgements([path], PAIRS)} == {*IDS}


def test_where_several_pairs_may_be_meant_the_line_says_how_to_open_the_file(tmp_path):
    same = pa.table({"query_id": ["q1", "q1"], "doc_id": ["9007199254740018", "9007199254740019"]})
    with pytest.raises(
        DataError, match=r"a spreadsheet may have written '9\.0072E\+15' for an id: read its columns as"
    ):
        read_judgements([saved(tmp_path, [("q1", "9.0072E+15")])], same)


def test_other_ids_are_nobodys_though_they_are_numbers(tmp_path):
    with pytest.raises(DataError, match="these judgements are of other pairs"):
        read_judgements([saved(tmp_path, [("7", "9007199254740010")])], PAIRS)
