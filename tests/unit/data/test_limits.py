"""Readers take in so much and no more, and a column that comes up late is not passed over; what is advised helps."""

import gzip
import json
import os
import random
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import openpyxl
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.formats.pairs import Pairs
from noisyir.data.limits import COLUMNS, DOCUMENT, LINE
from noisyir.data.recognise import recognise
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import read_object, utf8_lines
from tests.refusals import refuses


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(count: int) -> list[dict[str, object]]:
    return [{"query": f"q{n}", "document": f"d{n}"} for n in range(count)]


def splits(path: Path) -> list[str]:
    return [judgement.split for judgement in Pairs(path=str(path)).open().judgements()]


def test_a_split_that_comes_up_late_is_refused_and_read_once_the_first_row_names_it(tmp_path: Path):
    late = [*rows(120), {"query": "late", "document": "one", "split": "test"}]
    path = write(tmp_path / "pairs.jsonl", late)
    with refuses(DataError, "data.late_column", number=121, found="split"):
        splits(path)
    assert splits(write(path, [{**late[0], "split": None}, *late[1:]])) == ["train"] * 120 + ["test"]


def test_a_late_column_that_means_nothing_is_passed_over(tmp_path: Path):
    assert (
        splits(write(tmp_path / "pairs.jsonl", [*rows(120), {**rows(1)[0], "query": "x", "remark": "?"}]))
        == ["train"] * 121
    )


def test_a_late_column_that_the_user_leaves_unread_is_passed_over(tmp_path: Path):
    path = write(tmp_path / "pairs.jsonl", [*rows(120), {"query": "late", "document": "one", "split": "test"}])
    unread = Pairs(path=str(path), columns={"split": None}).open()
    assert {judgement.split for judgement in unread.judgements()} == {"train"}


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_line_beyond_the_limit_is_refused_and_the_variable_allows_it(tmp_path: Path, monkeypatch, name: str):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"x" * 2000) if name.endswith(".gz") else b"x" * 2000)
    monkeypatch.setenv(LINE.name, "1000")
    with refuses(DataError, "data.line_too_long"):
        list(utf8_lines(path))
    monkeypatch.setenv(LINE.name, "2000")
    assert list(utf8_lines(path)) == [(1, "x" * 2000)]


def test_a_json_file_beyond_the_limit_is_refused_and_the_variable_allows_it(tmp_path: Path, monkeypatch):
    (tmp_path / "x.json").write_text(json.dumps({"a": "x" * 2000}))
    monkeypatch.setenv(DOCUMENT.name, "1000")
    with refuses(DataError, "data.json_too_large"):
        read_object(tmp_path / "x.json")
    monkeypatch.delenv(DOCUMENT.name)
    assert read_object(tmp_path / "x.json") == {"a": "x" * 2000}


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with refuses(DataError, "data.special_file"):
        list(utf8_lines(tmp_path / "pipe"))


@pytest.mark.parametrize("value", ["0", "-1", "many", "1e9", "9" * 20])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, value: str):
    monkeypatch.setenv(LINE.name, value)
    with refuses(ConfigError, "data.wrong_limit"):
        _ = LINE.most


def workbook(path: Path, sheet: Callable[[IO[bytes]], None]) -> Path:
    """An .xlsx file of which the sheet's XML is written by hand."""
    openpyxl.Workbook().save(path.with_suffix(".plain"))
    with zipfile.ZipFile(path.with_suffix(".plain")) as given, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in given.namelist():
            if name != "xl/worksheets/sheet1.xml":
                made.writestr(name, given.read(name))
        with made.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as out:
            out.write(b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>')
            sheet(out)
            out.write(b"</sheetData></worksheet>")
    return path


def cell(place: str, text: str = "x") -> bytes:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'.encode()


def test_a_workbook_with_far_cells_is_read_as_far_as_its_header_goes(tmp_path: Path):
    def sheet(out: IO[bytes]) -> None:
        out.write(b'<row r="1">' + cell("A1", "query") + cell("B1", "document") + b"</row>")
        out.write(b'<row r="2">' + cell("A2", "why") + cell("B2", "therefore") + b"</row>")
        out.write(b'<row r="1048576">' + cell("XFD1048576") + b"</row>")

    began = time.process_time()
    rows = RowFile.open(str(workbook(tmp_path / "far.xlsx", sheet)), "data.path").rows(["query", "document"])
    assert [(number, list(row.values())) for number, row in rows] == [
        (2, ["why", "therefore"]), (1048576, [None, None]),
    ]  # fmt: skip
    alone = workbook(tmp_path / "alone.xlsx", lambda out: out.write(b'<row r="9">' + cell("XFD9") + b"</row>"))
    with refuses(DataError, "data.too_many_columns"):
        RowFile.open(str(alone), "data.path")
    assert time.process_time() - began < 20


def test_cells_of_a_workbook_are_bounded_before_they_are_unpacked(tmp_path: Path, monkeypatch):
    monkeypatch.setenv(LINE.name, "3000000")
    text = random.Random(0).randbytes(1 << 21).hex()  # packs to a half

    def sheet(out: IO[bytes]) -> None:
        out.write(b'<row r="1">' + cell("A1", "query") + cell("B1", "document") + b"</row>")
        out.write(b'<row r="2">' + cell("A2", "why") + cell("B2", text) + b"</row>")

    path = workbook(tmp_path / "long.xlsx", sheet)
    with refuses(DataError, "data.cell_too_long", most=3000000):
        RowFile.open(str(path), "data.path")
    monkeypatch.setenv(LINE.name, "6000000")
    ((_, row),) = RowFile.open(str(path), "data.path").rows(["document"])
    assert len(row["document"]) == 1 << 22
    monkeypatch.delenv(LINE.name)

    def bomb(out: IO[bytes]) -> None:
        out.write(b'<row r="1"><c r="A1" t="inlineStr"><is><t>')
        for _ in range(40):
            out.write(b"a" * (1 << 20))
        out.write(b"</t></is></c></row>")

    with refuses(DataError, "data.unpacks_too_large"):
        RowFile.open(str(workbook(tmp_path / "bomb.xlsx", bomb)), "data.path")


@pytest.mark.parametrize("write", [
    lambda names: ",".join(names) + "\n" + ",".join("x" for _ in names) + "\n",
    lambda names: json.dumps(dict.fromkeys(names, "x")) + "\n",
], ids=["csv", "jsonl"])  # fmt: skip
def test_a_file_of_sixty_thousand_columns_is_refused_at_once(tmp_path: Path, monkeypatch, write):
    path = tmp_path / ("x.jsonl" if write(["a"]).startswith("{") else "x.csv")
    path.write_text(write(["query", "document", *map(str, range(60_000))]))
    began = time.process_time()
    with refuses(DataError, "data.unknown_format"):
        recognise(str(path))
    monkeypatch.setenv(COLUMNS.name, "70000")
    assert recognise(str(path))["kind"] == "pairs"
    assert time.process_time() - began < 10
    path.write_text(write([*map(str, range(5000))]))
    with pytest.raises(DataError) as refused:
        recognise(str(path))
    assert len(str(refused.value)) < 1000
