"""Files as people have them in public threads, each of them misread before: now it is read right, told or refused."""

import re
import shlex
import zipfile
from pathlib import Path

import openpyxl
import openpyxl.styles
import pytest

from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.recognise import recognise
from tests.refusals import refuses
from tests.unit.data.test_stated import ASKED, CAT, DOG, MOON, csv, grades, jsonl, negatives, read, refused, typed

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
    with refuses(DataError, "data.hidden", what="the first sheet, 'old', is hidden"):
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


@pytest.mark.parametrize(("row", "wanted"), [
    ({"title_body": "", "upvoted_answer": "", "downvoted_answer": ""},
     "query=title_body,document=upvoted_answer,negative=downvoted_answer"),
    ({"query": "", "clicked_document": "", "skipped_document": ""},
     "query=query,document=clicked_document,negative=skipped_document"),
    ({"question": "", "correct_answers": "", "incorrect_answers": ""},
     "query=question,document=correct_answers,negative=incorrect_answers"),
    ({"query": "", "relevant_docs": "", "non_relevant_docs": ""},
     "query=query,document=relevant_docs,negative=non_relevant_docs"),
    ({"question": "", "good_answer": "", "bad_answer": ""},
     "query=question,document=good_answer,negative=bad_answer"),
    ({"query": "", "relevant": "", "irrelevant": ""}, "query=query,document=relevant,negative=irrelevant"),
    ({"source": "", "target": ""}, "query=source,document=target"),
    ({"claim": "", "badge": ""}, "query=claim,document=badge"),
])  # fmt: skip
def test_advised_columns_have_the_right_texts_as_documents(tmp_path, row, wanted):
    names = [*row]
    sides = zip(ASKED, (CAT, DOG, MOON), [f"{text} {text}" for text in (DOG, MOON, CAT)], strict=True)
    path = jsonl(tmp_path / "x.jsonl", *(dict(zip(names, side, strict=False)) for side in sides))
    (words,) = refused(path, tmp_path / "out", "data.unclear_columns")
    assert words == ["--map", wanted]
    found = typed(path, tmp_path / "out", *words)
    assert (read(found), len(negatives(found))) == ([(*pair, None) for pair in PAIRS], 3 * (len(names) - 2))


@pytest.mark.parametrize("more", [
    {"response_a": CAT, "response_b": DOG, "winner": "model_a"}, {"verifiable": "VERIFIABLE"}, {"clicks": "3"},
    {"page": "https://a.example/b"},
])  # fmt: skip
def test_no_document_is_advised_where_none_may_be_one(tmp_path, more):
    path = jsonl(tmp_path / "x.jsonl", *({"prompt": f"{asked} {n}", **more} for n in range(4) for asked in ASKED))
    assert refused(path, tmp_path / "out", "data.unclear_columns") == []


def test_an_empty_column_is_no_column_of_documents(tmp_path):
    rows = [{"question": asked, "context": "", "reply": text} for asked, text in PAIRS]
    path = jsonl(tmp_path / "x.jsonl", *rows)
    assert refused(path, tmp_path / "out", "data.pairs_without_texts") == [["--map", "document=NAME"]]
    assert read(typed(path, tmp_path / "out", "--map", "document=reply")) == [(*pair, None) for pair in PAIRS]
    jsonl(path, rows[0] | {"context": CAT}, *rows[1:])
    assert texts(typed(path, tmp_path / "out")) == [CAT]


@pytest.mark.parametrize("text", ["MED-{}", "https://a.example/{}", "docs/page_{}.html", "one {} || two"])
def test_ids_addresses_and_joined_texts_are_no_documents_unless_they_are_mapped(tmp_path, text):
    rows = [{"query": f"{asked} {n}", "positive": text.format(n)} for n, asked in enumerate(ASKED * 4)]
    path = jsonl(tmp_path / "x.jsonl", *rows)
    (kept,) = refused(path, tmp_path / "out", "data.no_texts")
    assert texts(typed(path, tmp_path / "out", *kept)) == [row["positive"] for row in rows]
    jsonl(path, *({**row, "positive": CAT, "negatives": [row["positive"]]} for row in rows))
    (kept,) = refused(path, tmp_path / "out", "data.no_texts")
    assert negatives(typed(path, tmp_path / "out", *kept)) == [row["positive"] for row in rows]


@pytest.mark.parametrize("text", ["{}", "19{}", "ls -l x{} || rm y", "see www.example.org for {}", "[{}]"])
def test_short_answers_and_commands_are_documents(tmp_path, text):
    rows = [{"query": f"{asked} {n}", "answer": text.format(n) if n % 2 else f"a {n}"} for n, asked in
            enumerate(ASKED * 4)]  # fmt: skip
    assert texts(typed(jsonl(tmp_path / "x.jsonl", *rows), tmp_path / "out")) == [row["answer"] for row in rows]


@pytest.mark.parametrize("names", ["query positive", "query pos neg"])
def test_ids_of_a_given_corpus_are_no_texts(tmp_path, names):
    corpus = jsonl(tmp_path / "corpus.jsonl", *({"_id": f"d{n}", "text": one} for n, one in enumerate((CAT, DOG))))
    rows = [dict(zip(names.split(), side, strict=False)) for side in ((ASKED[0], "d0", "d1"), (ASKED[1], "d1", "d0"))]
    path = jsonl(tmp_path / "x.jsonl", *rows)
    with refuses(DataError, "data.no_texts", fault="are ids of the corpus"):
        typed(path, tmp_path / "out", "--corpus", str(corpus))
    jsonl(path, *({"query": row["query"], "doc_id": row[names.split()[1]]} for row in rows))  # as advised
    assert texts(typed(path, tmp_path / "out", "--corpus", str(corpus))) == [CAT, DOG]
    jsonl(path, *({**row, names.split()[1]: MOON} for row in rows))  # texts, and more documents
    assert len(Collection.load(typed(path, tmp_path / "out", "--corpus", str(corpus)).folder).documents) > 2


def test_scores_of_chosen_and_rejected_answers_are_scores(tmp_path):
    row = {"prompt": ASKED[0], "chosen": CAT, "rejected": DOG, "chosen_score": 8, "rejected_score": 1}
    found = typed(jsonl(tmp_path / "x.jsonl", row), tmp_path / "out")
    (example,) = Collection.load(found.folder).examples()
    assert (example.positives[0].score, example.negatives[0].score) == (8, 1)
    assert Format.parse(recognise(str(tmp_path / "x.jsonl"))).open().digest().endswith("-scores-negatives")


@pytest.mark.parametrize("again", ["Query,DOCUMENT", "document,query"])
@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_header_within_joined_parts_is_no_pair_in_any_spelling_or_order(tmp_path, again, suffix):
    parts = [("query", "document"), PAIRS[0], tuple(again.split(",")), (DOG, ASKED[1])]
    if suffix == ".csv":
        csv(path := tmp_path / "x.csv", *map(",".join, parts))
    else:
        book = openpyxl.Workbook()
        for row in parts:
            book.active.append(row)
        book.save(path := tmp_path / "x.xlsx")
    if again == "document,query":
        with refuses(DataError, "data.header_turned", number=3):
            typed(path, tmp_path / "out")
    else:
        found = typed(path, tmp_path / "out")
        assert "left out    1: the header again" in found.summary and texts(found) == [CAT, ASKED[1]]


@pytest.mark.parametrize(("header", "is_refused"), [
    (("Query", "Document"), True), (("note", "query", "document"), True), (("query", "count"), False),
])  # fmt: skip
def test_a_second_sheet_with_the_same_columns_and_more_is_refused(tmp_path, header, is_refused):
    book = workbook(path := tmp_path / "x.xlsx")
    other = book.create_sheet("wrong")
    other.append(())
    other.append(header)
    book.save(path)
    if is_refused:
        with refuses(DataError, "data.equal_sheets", other="wrong", columns="document, query"):
            typed(path, tmp_path / "out")
        book.remove(other)  # saved as a file of its own
        book.save(path)
    assert texts(typed(path, tmp_path / "out")) == [CAT, DOG, MOON]


def test_struck_out_cells_are_refused(tmp_path):
    book = workbook(path := tmp_path / "x.xlsx")
    book.active["B3"].font = book.active["D9"].font = openpyxl.styles.Font(strike=True)  # D9 is empty
    book.save(path)
    with refuses(DataError, "data.hidden", what="cell B3 is struck out"):
        typed(path, tmp_path / "out")
    book.active["B3"].font = openpyxl.styles.Font(bold=True)
    book.save(path)
    assert texts(typed(path, tmp_path / "out")) == [CAT, DOG, MOON]


def test_bare_returns_are_told_with_a_cure(tmp_path):
    for name, between in (("x.csv", ","), ("x.tsv", "\t")):
        lines = [f"query{between}document", *(between.join(pair) for pair in PAIRS)]
        (tmp_path / name).write_bytes("\r".join(lines).encode())
        with refuses(DataError, "data.bare_returns"):
            typed(tmp_path / name, tmp_path / "out")
        (tmp_path / name).write_bytes("\r".join(lines).replace("\r", "\n").encode())  # tr '\r' '\n'
        assert texts(typed(tmp_path / name, tmp_path / "out")) == [CAT, DOG, MOON]


@pytest.mark.parametrize(("column", "values"), [("phase", "train test train"), ("split", "'TRAIN ' dev train")])
def test_a_column_of_splits_is_one_whatever_its_name_and_spaces(tmp_path, column, values):
    rows = zip(PAIRS, shlex.split(values), strict=True)
    lines = [f"{asked},{text},{value}" for (asked, text), value in rows]
    path = csv(tmp_path / "x.csv", f"query,document,{column}", *lines)
    assert re.search(r"3 pairs \(2 train, 1 (test|dev)\)", typed(path, tmp_path / "out").summary)
    csv(path, "query,document,topic", *(f"{asked},{text},train" for asked, text in PAIRS))  # of railways
    assert "3 pairs (3 train)" in typed(path, tmp_path / "out").summary


@pytest.mark.parametrize("nothing", ["n.a.", "(null)", r"\N", "undefined", "?", "[]", "{}", "''"])
def test_more_words_for_nothing_are_no_texts(tmp_path, nothing):
    path = csv(tmp_path / "x.csv", "query,document", *(",".join(pair) for pair in PAIRS), f"where?,{nothing}")
    assert "document without text (line 5)" in typed(path, tmp_path / "out").summary


def test_posts_of_a_dump_are_to_be_joined_with_their_answers(tmp_path):
    rows = [{"Id": n, "Title": asked, "Body": f"I tried. {asked}", "AcceptedAnswerId": 10 + n} for n, asked in
            enumerate(ASKED)]  # fmt: skip
    path = jsonl(tmp_path / "x.jsonl", *rows)
    (kept,) = refused(path, tmp_path / "out", "data.answers_elsewhere")
    assert texts(typed(path, tmp_path / "out", *kept)) == [row["Body"] for row in rows]
    jsonl(path, *({"Title": asked, "Body": "", "Answer": one, "AcceptedAnswerId": 1} for asked, one in PAIRS))
    assert texts(typed(path, tmp_path / "out")) == [CAT, DOG, MOON]
