"""Files as people have them in public threads, each of them misread before: now it is read right, told or refused."""

import zipfile
from pathlib import Path

import openpyxl
import pytest

from noisyir.base.errors import DataError
from noisyir.data.containers import write_rows
from noisyir.data.formats.pairs import Pairs
from tests.refusals import refuses
from tests.unit.data.test_stated import ASKED, CAT, DOG, MOON, csv, grades, jsonl, read, refused, typed

PAIRS = [*zip(ASKED, (CAT, DOG, MOON), strict=True)]


def workbook(path: Path) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    for row in (("query", "document"), *PAIRS):
        book.active.append(row)
    book.save(path)
    return book


def texts(found) -> list[str]:
    return [text for _, text, _ in read(found)]


@pytest.mark.parametrize("is_filtered", [True, False])
def test_hidden_rows_of_a_workbook_are_refused(tmp_path, is_filtered):
    book = workbook(path := tmp_path / "x.xlsx")
    if is_filtered:
        book.active.auto_filter.ref = "A1:B4"
    book.active.row_dimensions[3].hidden = True
    book.active.row_dimensions[9].hidden = True  # empty
    book.save(path)
    assert refused(path, tmp_path / "out", "data.hidden") == []
    book.active.delete_rows(3)  # as advised
    book.active.row_dimensions[3].hidden = False
    book.save(path)
    assert texts(typed(path, tmp_path / "out")) == [CAT, MOON]


def test_a_hidden_first_sheet_is_refused(tmp_path):
    book = workbook(path := tmp_path / "x.xlsx")
    old = book.create_sheet("old", 0)
    old.append(("query", "document", "state"))
    old.append((ASKED[0], DOG, "old"))
    old.sheet_state = "hidden"
    book.save(path)
    with refuses(DataError, "data.hidden", what="the first sheet, 'old',"):
        typed(path, tmp_path / "out")
    book.remove(old)  # as advised
    book.save(path)
    assert texts(typed(path, tmp_path / "out")) == [CAT, DOG, MOON]


def test_a_return_that_excel_spells_is_a_return(tmp_path):
    workbook(tmp_path / "plain.xlsx")
    with zipfile.ZipFile(tmp_path / "plain.xlsx") as plain, zipfile.ZipFile(tmp_path / "x.xlsx", "w") as out:
        for name in plain.namelist():
            out.writestr(name, plain.read(name).replace(b"on the mat all", b"on the_x000D_\nmat all"))
    found = typed(tmp_path / "x.xlsx", tmp_path / "out")
    assert texts(found)[0] == "The cat sat on the\r\nmat all day."
    assert "returns" in (Pairs(path=str(tmp_path / "x.xlsx")).marks() or "")  # no build of before is taken
    with refuses(DataError, "data.text_too_long_for_cell"):
        write_rows(tmp_path / "y.xlsx", iter([{"document": "in Excel _x000D_ is a return"}]))


@pytest.mark.parametrize("mark", ["x", "1", "true"])
def test_a_mark_of_wrong_pairs_is_asked_about_with_a_reading(tmp_path, mark):
    path = csv(tmp_path / "x.csv", "query,document,Wrong", f"{ASKED[0]},{CAT},", f"{ASKED[1]},{MOON},{mark}")
    words, null = refused(path, tmp_path / "out", "data.unclear_label")
    assert grades(typed(path, tmp_path / "out", *words)) == [None, 0]
    assert grades(typed(path, tmp_path / "out", *null)) == [None, None]


@pytest.mark.parametrize("flag", ["wrong", "isNoise", "is_valid"])
def test_a_flag_that_only_later_rows_have_is_refused(tmp_path, flag):
    rows = [{"query": f"{ASKED[0]} {number}", "document": CAT} for number in range(110)]
    path = jsonl(tmp_path / "x.jsonl", *rows, {"query": ASKED[1], "document": MOON, flag: True})
    found = typed(path, tmp_path / "out")
    assert f"have no '{flag}'" in found.summary and len(read(found)) == 110
    jsonl(path, *rows, {"query": ASKED[1], "document": MOON, "note": True})  # as advised
    assert len(read(typed(path, tmp_path / "out"))) == 111


def test_a_key_of_objects_that_calls_some_wrong_is_refused(tmp_path):
    documents = [{"text": CAT, "wrong": False}, {"text": MOON, "wrong": True}]
    path = jsonl(tmp_path / "x.jsonl", {"query": ASKED[0], "documents": documents})
    with refuses(DataError, "data.label_in_object", key="wrong"):
        typed(path, tmp_path / "out")


@pytest.mark.parametrize(("header", "wanted"), [
    ("Betreff,Lösung,Status", "query=Betreff,document=Lösung"),
    ("Thema,Text dazu,Status", "query=Thema,document=Text dazu"),
    ("Text dazu,Thema,Status", "query=Thema,document=Text dazu"),
    ("Notiz,Reply,Status", "query=Notiz,document=Reply"),
])  # fmt: skip
def test_advised_columns_go_by_names_and_by_the_lengths_of_several_rows(tmp_path, header, wanted):
    names = header.split(",")
    rows = [dict(zip(("Betreff", "Lösung", "Status"), (f"{MOON} {DOG} {CAT} {MOON}", "Yes.", "new"), strict=True))]
    rows += [{"Betreff": asked, "Lösung": text, "Status": "new"} for asked, text in PAIRS * 9]
    of = {"Thema": "Betreff", "Text dazu": "Lösung", "Notiz": "Lösung", "Reply": "Betreff"}
    lines = [",".join(row[of.get(name, name)] for name in names) for row in rows]
    path = csv(tmp_path / "x.csv", header, *lines)
    (words,) = refused(path, tmp_path / "out", "data.unclear_columns")
    assert words == ["--map", wanted]
