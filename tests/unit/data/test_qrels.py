"""Judgements in a file of three columns, which triples of ids and short runs have, too."""

import json

import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats import Format
from noisyir.data.recognise import recognise
from noisyir.front import cli
from tests.refusals import refuses

TEXTS = {name: f"the {name} of the account can be reset in the settings" for name in ("password", "email", "language")}


@pytest.fixture
def files(tmp_path):
    """Documents and queries as BEIR writes them, under names of their own."""
    for file, texts in (("docs.jsonl", TEXTS), ("asked.jsonl", {f"q-{name}": f"reset {name}?" for name in TEXTS})):
        (tmp_path / file).write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in texts.items()))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "header", "between"),
    [
        ("train_labels.tsv", "query-id\tcorpus-id\tscore\n", "\t"),
        ("train.csv", "query_id,doc_id,relevance\n", ","),
        ("qrels.train.tsv", "", "\t"),
        ("train.txt", "", " "),
    ],
)
def test_grades_are_kept_and_the_name_tells_the_split(files, capsys, name, header, between):
    rows = zip(TEXTS, (1, 0, 2), strict=True)
    lines = [between.join((f"q-{doc}", doc, str(grade))) + "\n" for doc, grade in rows]
    (files / name).write_text(header + "".join(lines))
    typed = ["import", str(files / name), "--out", str(files / "out")]
    beside = ["--corpus", str(files / "docs.jsonl"), "--queries", str(files / "asked.jsonl")]
    assert cli.main(typed) == 1 and "--queries FILE --corpus FILE" in capsys.readouterr().err
    assert cli.main([*typed, *beside]) == 0
    said = capsys.readouterr().out
    assert "3 pairs (3 train), 0 negatives" in said and "1 as 0, 1 as 1, 1 as 2" in said


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("1 7 1\n2 9 1\n", "trec"),  # judgements of one document a query, and no run of one hit
        ("1 7 1\n1 9 2\n2 7 1\n", "trec"),  # a run
        ("1\t7\t9\n2\t9\t7\n", "triples"),
        ("1\t7\t0\n2\t9\t812\n", "triples"),
        ("1 U0 7 4\n2 U0 9 1\n", "trec"),  # ANTIQUE's
    ],
)
def test_what_three_or_four_columns_are(files, lines, kind):
    (files / "x.tsv").write_text(lines)
    assert recognise(str(files / "x.tsv"))["kind"] == kind


def test_a_file_of_one_judgement_a_query_holds_no_negatives(files, capsys):
    (files / "x.tsv").write_text("".join(f"q-{doc}\t{doc}\t1\n" for doc in TEXTS))
    beside = ["--corpus", str(files / "docs.jsonl"), "--queries", str(files / "asked.jsonl")]
    assert cli.main(["import", str(files / "x.tsv"), *beside, "--out", str(files / "out")]) == 0
    assert "3 pairs (3 test), 0 negatives" in capsys.readouterr().out


def test_a_line_of_another_width_is_none_of_another_meaning(files, capsys):
    (files / "x.tsv").write_text("q-email 0 email 1\nq-password password 1\n")
    beside = ["--corpus", str(files / "docs.jsonl"), "--queries", str(files / "asked.jsonl")]
    assert cli.main(["import", str(files / "x.tsv"), *beside, "--out", str(files / "out")]) == 0
    said = capsys.readouterr().out
    assert "1 pairs" in said and "1 left out" in said


def test_a_folder_with_other_names_is_told_the_command_that_reads_it(files, capsys):
    (files / "docs.jsonl").rename(files / "corpus.jsonl")
    with refuses(DataError, "data.beir_files_missing", missing="queries.jsonl") as refused:
        Format.of_kind("beir")(path=str(files)).open()
    (files / "labels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q-{d}\t{d}\t1\n" for d in TEXTS))
    typed = str(refused.value).partition("read by noisyir ")[2]
    for placeholder, file in (("QRELS", "labels.tsv"), ("FILE", "corpus.jsonl"), ("FILE", "asked.jsonl"), ("NEW", "n")):
        typed = typed.replace(placeholder, str(files / file), 1)
    assert cli.main(typed.split()) == 0 and "3 pairs" in capsys.readouterr().out


@pytest.mark.parametrize(("line", "is_new"), [("q-email 0 email 1\n", False), ("q-email email 1\n", True)])
def test_builds_of_three_columns_are_of_this_reading(files, line, is_new):
    (files / "x.txt").write_text(f"# judged by hand\n{line}")
    beside = {"corpus": str(files / "docs.jsonl"), "queries": str(files / "asked.jsonl")}
    settings = recognise(str(files / "x.txt"), **beside)
    opened = Format.of_kind(settings["kind"]).model_validate(settings).open()
    assert opened.digest().endswith("-three") == is_new and len(list(opened.judgements())) == 1
