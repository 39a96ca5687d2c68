"""Files that are recognised by little: both readings are shown, and no advice loses a row or a column."""

import re
import shlex
from pathlib import Path

import pytest

import noisyir
from noisyir.app.data_import import import_data
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.recognise import recognise
from noisyir.front.cli import main
from tests.refusals import refuses

pytestmark = pytest.mark.usefixtures("timed")

VERBS = ["import", "check", "audit", "init", "mine"]


def pairs_of(source: Path | str, out: Path) -> list[tuple[str, str]]:
    import_data(str(source), out)
    return [(example.query, passage.text) for example, passage in Collection.load(out).pairs()]


BAD_HEADERS = {
    "no header": (b"how do I mend it?,take glue\nhow do I cook it?,take a pot\n", "names no columns", "add a line"),
    "no header, short": (b"red fruit,apple\nsky,blue\n", "it has red fruit, apple", "add names above it"),
    "a number first": (b"1,mend it,take glue\n2,cook it,take a pot\n", "names no columns", "add a line"),
    "sep": (b"sep=;\nquestion;answer\nwho?;a cat\n", "Excel's line sep=", "tail -n \\+2"),
    "sep with a comma": (b"sep=,\nquestion,answer\nwho?,a cat\n", "Excel's line sep=", "tail -n \\+2"),
    "a title of one cell": (b"FAQ\nquestion,answer\nwho?,a cat\n", "only one column, FAQ", "tail -n \\+2"),
    "a title of two cells": (b"FAQ;\nquestion;answer\nwho?;a cat\n", "names no columns", "tail -n \\+2"),
    "a title of three cells": (b"FAQ;;\nquestion;answer;n\nwho?;a cat;1\n", "columns without a name", "delete it"),
    "Windows-1252": ("Frage;Lösung\nwer?;fünf\nwann?;heute\n".encode("cp1252"), "line 1: not UTF-8", "WINDOWS-1252"),
}


@pytest.mark.parametrize("kind", BAD_HEADERS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_first_line_that_is_no_header_is_told(tmp_path, monkeypatch, capsys, verb, kind):
    content, what, remedy = BAD_HEADERS[kind]
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(content)
    assert main([verb, "x.csv"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and re.search(what, said) and re.search(remedy, said)


@pytest.mark.parametrize("kind", ["sep", "sep with a comma", "a title of one cell", "a title of two cells"])
def test_a_file_without_its_first_line_is_read(tmp_path, kind):
    content = BAD_HEADERS[kind][0]
    (tmp_path / "x.csv").write_bytes(content.partition(b"\n")[2])
    assert pairs_of(tmp_path / "x.csv", tmp_path / "out") == [("who?", "a cat")]


def test_spaces_and_signs_in_a_header_are_as_underscores_and_a_store_of_before_reads_the_file_again(tmp_path):
    plain, spaced = tmp_path / "plain.csv", tmp_path / "spaced.csv"
    rows = "q7,who?,d9,a cat\n"
    plain.write_text(f"query_id,question,doc_id,answer\n{rows}")
    spaced.write_text(f" Query ID ,Question?,Doc-ID,(Answer)\n{rows}")
    made = [tmp_path / name for name in ("of_plain", "of_spaced")]
    assert pairs_of(plain, made[0]) == pairs_of(spaced, made[1]) == [("who?", "a cat")]
    ids = [(one.query_id, passage.doc_id) for out in made for one, passage in Collection.load(out).pairs()]
    assert ids == [("q7", "d9")] * 2
    digests = [Pairs(path=str(path)).digest() for path in (plain, spaced)]
    assert digests[1].endswith("-header") and not digests[0].endswith("-signs")


@pytest.mark.parametrize("answers", ['"answers": ["take glue", "or a nail"]', '"answer": ["take glue", "or a nail"]'])
@pytest.mark.parametrize("query", ["question", "query", "qText"])
def test_questions_with_lists_of_answers_are_never_topics_without_a_word(tmp_path, monkeypatch, capsys, answers, query):
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text(f'{{"{query}": "how?", {answers}}}\n')
    for verb in VERBS:
        assert main([verb, "x.jsonl"]) == 1
        said = capsys.readouterr().err
        assert re.search(r": type (noisyir .*?) makes each answer a document; (noisyir .*?) takes them", said)
    assert main(["import", "x.jsonl"]) == 1
    made, taken = re.search(r": type (noisyir .*?) makes .*; (noisyir .*?) takes", capsys.readouterr().err).groups()
    assert main([*shlex.split(made)[1:], "--out", "pairs"]) == 0
    assert {passage.text for _, passage in Collection.load(Path("pairs")).pairs()} == {"take glue", "or a nail"}
    assert main([*shlex.split(taken)[1:], "--out", "topics"]) == 0


@pytest.mark.parametrize(
    ("row", "pair", "unread"),
    [
        ('{"question": "q", "answers": ["a"], "positive": "p"}', ("q", "p"), ["answers"]),
        ('{"question": "q", "answers": ["a"], "context": "c"}', ("q", "c"), ["answers"]),
        ('{"question": "q", "answer": "a", "context": "c"}', ("q", "c"), ["answer"]),
        ('{"question": "q", "answer": ["a"], "text": "t", "n": 3}', ("q", "t"), ["answer", "n"]),
        ('{"query": "a long query of many words", "response": "r"}', ("a long query of many words", "r"), []),
    ],
)
def test_a_known_name_decides_and_what_is_not_read_is_told(tmp_path, row, pair, unread):
    (tmp_path / "x.jsonl").write_text(row)
    assert pairs_of(tmp_path / "x.jsonl", tmp_path / "out") == [pair]
    found = import_data(str(tmp_path / "x.jsonl"), tmp_path / "out")
    assert found.report.get("unread", []) == unread
    assert ("not read" in found.summary) == bool(unread)


def test_a_known_name_is_the_query_in_advice_whatever_is_longer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("page,query\n3 weeks,how long do eggs keep in the fridge?\n")
    assert main(["audit", "x.csv"]) == 1
    assert "if 'query' is the query, type noisyir audit x.csv --query query --document page" in capsys.readouterr().err


def test_what_is_rejected_is_a_negative(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"query": "q", "response": "r", "rejected_response": "no r"}')
    source = Format.parse(recognise(str(tmp_path / "x.jsonl"))).open()
    [example] = map(source.example, source.rows())
    assert [passage.text for passage in example.negatives] == ["no r"]
    assert source.digest().endswith("-negatives")


@pytest.mark.parametrize("names", ["Negative 1,Negative 2", "negative_1,negative_2", "Hard Negative 1,hard-negative-2"])
def test_numbered_negatives_may_have_spaces(tmp_path, names):
    (tmp_path / "x.csv").write_text(f"Query,Positive,{names}\nq,p,a,b\n")
    source = Pairs(path=str(tmp_path / "x.csv")).open()
    [example] = map(source.example, source.rows())
    assert [passage.text for passage in example.negatives] == ["a", "b"]
    assert source.digest().endswith("-negatives") == (" " in names)


def test_a_query_with_negatives_alone_has_no_document(tmp_path):
    rows = ['{"query": "q", "pos": [], "neg": ["n"]}', '{"query": "r", "pos": ["d"], "neg": ["n"]}',
            '{"query": "s", "pos": [""], "neg": ["n"]}']  # fmt: skip
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    found = noisyir.check(str(tmp_path / "x.jsonl"))
    assert found.sizes == {"documents": 3, "queries": 3, "judgements": 2, "negatives": 3}
    assert [one.count for one in found.of("texts.empty")] == [1]
    assert not found.of("same")


def test_a_header_that_is_not_utf8_is_refused_and_a_row_is_left_out(tmp_path):
    (tmp_path / "x.csv").write_bytes("query,document\nwer?,fünf\nwann?,heute\n".encode("cp1252"))
    found = import_data(str(tmp_path / "x.csv"), tmp_path / "out")
    assert "left out    1: not UTF-8 (line 2)" in found.summary
    (tmp_path / "y.csv").write_bytes("query,document,Lösung\nwer?,d,a\n".encode("cp1252"))
    with refuses(DataError, "data.not_utf8_line", number=1):
        import_data(str(tmp_path / "y.csv"), tmp_path / "none")


def test_a_csv_with_a_broken_quote_has_one_delimiter_for_its_header_and_its_rows(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text('text ;,text 0|\ntext :,text 000,text 0000\n"text """,text 0,text 1\ntext 2,text |,text 00\n')
    assert main(["check", str(path)]) == 1
    assert "names no columns" in capsys.readouterr().err
