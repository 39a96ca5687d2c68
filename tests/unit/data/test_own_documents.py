"""Queries and documents of one population: a query's own text, or the document of its own id, answers nothing."""

import json

import pytest

from noisyir.data.artifacts import CORPUS, QRELS, QUERIES
from noisyir.data.formats.beir import Beir
from noisyir.data.formats.pairs import Pairs
from noisyir.data.own_documents import own_documents
from noisyir.data.stages.ingest import INGEST
from tests.world import table

ASKED = table(QUERIES, [("q1", "Who sat? ", "test"), ("7", "a number", "test"), ("arg-1", "Fish swim.", "test")])
READ = table(
    CORPUS,
    [("d1", 0, "", "who sat?"), ("d2", 1, "Who sat?", ""), ("7", 2, "", "other"), ("arg-1", 3, "Fish", "They swim.")],
)


def own(qrels=None):
    return sorted(map(tuple, (row.values() for row in own_documents(ASKED, READ.to_batches(2), qrels).to_pylist())))


def test_own_documents_have_the_querys_text_or_its_id_unless_that_is_a_number():
    assert [pair for pair in own() if pair != ("q1", "q1")] == [("arg-1", "arg-1"), ("q1", "d1"), ("q1", "d2")]


def test_a_document_that_people_call_relevant_is_none():
    qrels = table(QRELS, [("q1", "d2", 1), ("q1", "d1", 0), ("arg-1", "arg-1", 2)])
    assert [pair for pair in own(qrels) if pair != ("q1", "q1")] == [("q1", "d1")]


@pytest.mark.parametrize(
    ("pairs", "marks"),
    [
        ([("one way", "another way"), ("another way", "one way")], "itself"),
        ([("как чистить", "clean it"), ("как мыть", "wash it")], "apart"),
        ([("one way", "another way"), ("one more", "something else")], None),
    ],
)
def test_only_data_that_earlier_versions_took_wrongly_has_another_key(tmp_path, pairs, marks):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"query": q, "document": d}) + "\n" for q, d in pairs), encoding="utf-8")
    data = Pairs(path=str(path))
    assert data.marks() == marks and INGEST.digests(data).get("marks") == marks


@pytest.mark.parametrize("splits", [{"train": 3, "test": 1}, {"test": 1}])
def test_a_folder_is_counted(tmp_path, splits):
    (tmp_path / "qrels").mkdir()
    for name in ("corpus", "queries"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "x {n}"}}\n' for n in range(4)))
    for split, count in splits.items():
        rows = [f"{number}\t{number}\t{grade}\n" for number in range(count) for grade in (1,)]
        (tmp_path / f"qrels/{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    assert Beir(path=str(tmp_path)).summary().pairs == splits.get("train", 0)
