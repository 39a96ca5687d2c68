"""Readers take in so much and no more, and a column that comes up late is not passed over; what is advised helps."""

import gzip
import json
import os
from pathlib import Path

import pytest

from noisyir.data.formats.pairs import Pairs
from noisyir.data.limits import DOCUMENT, LINE
from noisyir.data.text_files import read_object, utf8_lines
from noisyir.errors import ConfigError, DataError


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
    with pytest.raises(
        DataError, match=r"pairs\.jsonl line 121: .* have no 'split': give the first row \"split\": null"
    ):
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
    with pytest.raises(DataError, match=r"line 1: longer than 1,000 bytes: .* NOISYIR_LONGEST_LINE sets another limit"):
        list(utf8_lines(path))
    monkeypatch.setenv(LINE.name, "2000")
    assert list(utf8_lines(path)) == [(1, "x" * 2000)]


def test_a_json_file_beyond_the_limit_is_refused_and_the_variable_allows_it(tmp_path: Path, monkeypatch):
    (tmp_path / "x.json").write_text(json.dumps({"a": "x" * 2000}))
    monkeypatch.setenv(DOCUMENT.name, "1000")
    with pytest.raises(DataError, match="NOISYIR_LARGEST_JSON sets another limit"):
        read_object(tmp_path / "x.json")
    monkeypatch.delenv(DOCUMENT.name)
    assert read_object(tmp_path / "x.json") == {"a": "x" * 2000}


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="copy into one what comes by a pipe"):
        list(utf8_lines(tmp_path / "pipe"))


@pytest.mark.parametrize("value", ["0", "-1", "many", "1e9", "9" * 20])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, value: str):
    monkeypatch.setenv(LINE.name, value)
    with pytest.raises(ConfigError, match="must be a whole number above 0"):
        _ = LINE.most
