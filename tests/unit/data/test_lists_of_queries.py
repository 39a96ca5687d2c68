"""Several queries of a document in one row, as programs that generate questions write them."""

import csv
import json

import pytest

from noisyir.front import cli

DOCUMENTS = [f"To change the {word}, open the settings and press reset." for word in ("password", "email", "language")]
ASKED = [[f"reset {place}?", f"where is {place}?"] for place in range(len(DOCUMENTS))]


def write_csv(path):
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["chunk_text", "generated_questions"])
        rows.writerows([text, json.dumps(asked)] for text, asked in zip(DOCUMENTS, ASKED, strict=True))


def write_jsonl(path):
    rows = ({"chunk_text": text, "generated_questions": asked} for text, asked in zip(DOCUMENTS, ASKED, strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(("name", "write"), [("made.csv", write_csv), ("made.jsonl", write_jsonl)])
def test_each_is_a_pair_and_the_advised_command_reads_them(tmp_path, monkeypatch, capsys, name, write):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name)
    assert cli.main(["import", name, "--out", "out"]) == 1
    typed = capsys.readouterr().err.partition("type noisyir ")[2].split()
    assert typed[-1] == "query=generated_questions,document=chunk_text"
    assert cli.main(typed) == 0
    assert "3 documents, 6 queries, 6 pairs" in capsys.readouterr().out


def test_a_text_that_begins_with_a_bracket_is_no_list(tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    path.write_text('query,document\n[solved] how to reset,press it\n"[""a"", ""b""]",a list of texts\n')
    assert cli.main(["import", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "2 queries, 2 pairs" in capsys.readouterr().out
