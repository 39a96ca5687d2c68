"""SQuAD json: every paragraph is a document, and equal paragraphs answer each other's questions."""

import json
from pathlib import Path

import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats.squad import Squad
from noisyir.data.stages.ingest import INGEST
from tests.refusals import refuses


def question(name, *answers):
    return {"id": name, "question": f"{name}?", "answers": [{"text": text, "answer_start": 0} for text in answers]}


def article(title, *paragraphs):
    return {"title": title, "paragraphs": [{"context": text, "qas": list(asked)} for text, *asked in paragraphs]}


TRAIN = [article("Old_Cats", ("Cats sat.", question("t1", "Cats")), ("Cats ran.", question("t2", "ran", "ran", " ")))]
DEV = [article("Dogs", ("Dogs ran.", question("v1", "Dogs", "dogs")), ("Cats sat.", question("v2", "sat")))]


@pytest.fixture
def ingest(run_stage_on, tmp_path):
    def run(train=TRAIN, dev=DEV, **settings):
        for name, articles in (("train-v1.1.json", train), ("dev-v1.1.json", dev)):
            text = articles if isinstance(articles, str) else json.dumps({"version": "1.1", "data": articles})
            (tmp_path / name).write_text(text)
        params = Squad(path=str(tmp_path), **settings)
        return run_stage_on(INGEST, params, {})

    return run


def test_paragraphs_questions_and_distinct_answers(ingest):
    tables = ingest()
    assert tables["corpus"]["doc_id"].to_pylist() == [
        "dev-Dogs-0",
        "dev-Dogs-1",
        "train-Old_Cats-0",
        "train-Old_Cats-1",
    ]
    assert tables["corpus"]["title"].to_pylist() == ["Dogs", "Dogs", "Old Cats", "Old Cats"]
    assert tables["queries"]["split"].to_pylist() == ["dev", "dev", "train", "train"]
    assert tables["answers"]["aliases"].to_pylist() == [["Dogs", "dogs"], ["sat"], ["Cats"], ["ran"]]


def test_the_source_of_a_pair_is_its_questions_article(ingest):
    pairs = ingest()["pairs"].to_pylist()
    assert {(row["query_id"], row["source"]) for row in pairs} == {
        ("v1", "Dogs"),
        ("v2", "Dogs"),
        ("t1", "Old Cats"),
        ("t2", "Old Cats"),
    }


def test_a_copy_of_a_paragraph_is_relevant_too(ingest):
    qrels = ingest()["qrels"].to_pylist()
    assert {row["doc_id"] for row in qrels if row["query_id"] == "v2"} == {"dev-Dogs-1", "train-Old_Cats-0"}
    assert {row["doc_id"] for row in qrels if row["query_id"] == "t2"} == {"train-Old_Cats-1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "{"}, r"train-v1.1.json: invalid JSON"),
        ({"train": "{}"}, r"train-v1.1.json: lacks 'data'; it has no fields"),
        ({"dev": [{"title": "A", "paragraphs": [{"qas": []}]}]}, r"article 'A', paragraph 0: lacks 'context'"),
        ({"dev": [article("A", ("Text.", {"id": "v1"}))]}, r"article 'A', paragraph 0: lacks 'answers'"),
        (
            {"dev": [article("A", ("Text.", question("t1", "x")))]},
            r"train-v1.1.json question 1: query id 't1' occurs again",
        ),
        (
            {"dev": [article("", (" ", question("v1", "x")))]},
            r"dev-v1.1.json paragraph 1: document 'dev--0' has no text",
        ),
    ],
)
def test_a_fault_is_one_line_with_its_place(ingest, changes, message):
    with pytest.raises(DataError, match=message) as caught:
        ingest(**changes)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named_when_planning(tmp_path):
    (tmp_path / "dev-v1.1.json").write_text("{}")
    with refuses(DataError, "data.files_missing", missing="train-v1.1.json"):
        Squad(path=str(tmp_path)).digest()


REAL = Path(__file__).parents[3].parent / "shared" / "data" / "squad"


@pytest.mark.skipif(not REAL.is_dir(), reason="SQuAD of ../shared/data is not here")
def test_squad_has_its_published_size(run_stage_on):
    params = Squad(path=str(REAL))
    tables = run_stage_on(INGEST, params, {})
    assert tables["corpus"].num_rows == 18_896 + 2_067
    assert tables["queries"]["split"].value_counts().to_pylist() == [
        {"values": "dev", "counts": 10_570},
        {"values": "train", "counts": 87_599},
    ]
