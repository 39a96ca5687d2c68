"""Files as people have them in public threads, each of them misread before: now it is read right, told or refused."""

import zipfile
from pathlib import Path

import openpyxl
import pytest

from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.recognise import recognise
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


def test_queries_that_are_longer_and_ask_nothing_are_asked_about_where_the_documents_ask(tmp_path):
    lines = [f"{text} {number},{asked}" for number in range(4) for asked, text in PAIRS]
    path = csv(tmp_path / "x.csv", "anchor,positive", *lines)
    turned, kept = refused(path, tmp_path / "out", "data.swapped")
    assert read(typed(path, tmp_path / "out", *turned))[0][:2] == (ASKED[0], f"{CAT} 0")
    assert read(typed(path, tmp_path / "out", *kept))[0][:2] == (f"{CAT} 0", ASKED[0])


@pytest.mark.parametrize("query", ["the cat on a mat", "who sat down on the mat in front of the house?"])
def test_short_searches_and_other_questions_are_queries(tmp_path, query):
    path = csv(
        tmp_path / "x.csv", "query,document", *(f"{query},how did the cat sit {number}?" for number in range(12))
    )
    assert len(read(typed(path, tmp_path / "out"))) == 12


@pytest.mark.parametrize("document", ["answer", "response"])
def test_a_title_beside_an_answer_is_read_where_it_is_mapped(tmp_path, document):
    path = csv(tmp_path / "x.csv", f"title,question,{document}", f"a mat,{ASKED[0]},{CAT}")
    found = typed(path, tmp_path / "out")
    assert "not read      title" in found.summary
    assert Collection.load(found.folder).documents["title"].to_pylist() == [""]
    mapped = typed(path, tmp_path / "out", "--map", "title=title")
    assert Collection.load(mapped.folder).documents["title"].to_pylist() == ["a mat"]
    assert Format.parse(recognise(str(path))).open().digest().endswith("-title")  # no build of before is taken


@pytest.mark.parametrize("quotes", ["''", "\u201c\u201d", "\u00ab\u00bb"])
def test_cells_in_other_quotes_are_refused(tmp_path, quotes):
    lines = [",".join(f"{text}".join(quotes) for text in pair) for pair in PAIRS]
    path = csv(tmp_path / "x.csv", "query,document", *lines)
    assert refused(path, tmp_path / "out", "data.other_quotes") == []
    csv(path, "query,document", *(line.replace(quotes[0], '"').replace(quotes[1], '"') for line in lines))  # as advised
    assert read(typed(path, tmp_path / "out")) == [(*pair, None) for pair in PAIRS]
