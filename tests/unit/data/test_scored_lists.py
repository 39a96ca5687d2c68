"""Scored lists in five shapes: as they are written so they are read, and broken scores are refused with their count."""

import json

import pytest

from noisyir.base.errors import DataError
from noisyir.data.examples import Passage
from noisyir.data.scored_lists import SHAPES, ScoredList, read_scored_lists, write_scored_lists

DOCUMENTS = [Passage("title", "w1 w2", "d1", 2.5), Passage("", "w3", "d3", 7.25), Passage("", "w4 w5", "d4", -1.125)]
LISTS = [
    ScoredList("q1", "asked first", DOCUMENTS, 1),
    ScoredList("q2", "asked then", [DOCUMENTS[2], DOCUMENTS[1]._replace(score=0.5), DOCUMENTS[0]], 1),
]
HELD = {  # of (id, text, title) of a document, and of its place among the given, those that a shape has
    "ids": ("query_id", "doc_id"),
    "flagembedding": ("query_id", "query", "doc_id", "text"),
    "tevatron": ("query_id", "query", "doc_id", "text", "title"),
    "sentence_transformers": ("query", "text"),
    "trec": ("query_id", "doc_id"),
}


def written(path, shape, lists):
    target = path / ("lists.run" if shape == "trec" else "lists.jsonl")
    write_scored_lists(shape, lists, target)
    return target


@pytest.mark.parametrize("shape", [*SHAPES, "trec"])
def test_lists_are_read_as_they_were_written(tmp_path, shape):
    found = read_scored_lists(written(tmp_path, shape, LISTS))
    for one, before in zip(found, LISTS, strict=True):
        expected = list(before.documents)
        if shape == "trec":
            expected.sort(key=lambda document: -document.score)
        assert one.scores == [document.score for document in expected]
        assert one.given == (0 if shape == "trec" else before.given)
        for name in HELD[shape]:
            if name in ("query_id", "query"):
                assert getattr(one, name) == getattr(before, name)
        if "doc_id" in HELD[shape]:
            assert [document.doc_id for document in one.documents] == [document.doc_id for document in expected]
        if "text" in HELD[shape]:
            said = [" ".join(f"{document.title} {document.text}".split()) for document in one.documents]
            assert said == [" ".join(f"{document.title} {document.text}".split()) for document in expected]


def test_a_container_may_be_parquet_and_margins_become_scores(tmp_path):
    target = tmp_path / "lists.parquet"
    write_scored_lists("sentence_transformers", LISTS, target)
    assert [one.scores for one in read_scored_lists(target)] == [one.scores for one in LISTS]
    row = {"query": "q", "positive": "a", "negative_1": "b", "negative_2": "c", "label": [3.0, -1.0]}
    (tmp_path / "margins.jsonl").write_text(json.dumps(row))
    (one,) = read_scored_lists(tmp_path / "margins.jsonl")
    assert one.scores == [0.0, -3.0, 1.0]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonl", '{"query_id": 1, "document_ids": ["a", "b"], "scores": [NaN, 1]}', ("1 of 2",)),
        ("a.jsonl", '{"query_id": 1, "document_ids": ["a", "b"], "scores": [null, 1]}', ("1 of 2",)),
        ("a.jsonl", '{"query_id": 1, "document_ids": ["a", "b"], "scores": [Infinity, NaN]}', ("2 of 2",)),
        (
            "a.jsonl",
            '{"query_id": 1, "document_ids": ["a", "b"], "scores": [1]}',
            ("line 1", "2 documents", "1 scores"),
        ),
        ("a.jsonl", '{"query_id": 1, "document_ids": ["a"], "scores": ["high"]}', ("line 1", "'high'")),
        ("a.jsonl", '{"query": "q", "pos": ["a"], "neg": ["b"]}', ("columns query, pos, neg", "pos_scores")),
        ("a.jsonl", '{"query": "q", "pos": ["a"], "neg": ["b"], "pos_scores": [1], "neg_scores": []}', ("neg_scores",)),
        (
            "a.jsonl",
            '{"query": "q", "positive_passages": [{"docid": "1", "text": "a"}], "negative_passages": []}',
            ("1 of 1",),
        ),
        ("a.run", "q Q0 d1 1 nan tag\nq Q0 d2 2 0.5 tag\n", ("1 of 2",)),
        ("a.run", "q Q0 d1 1 0.5 tag\nq d2 2\n", ("line 2", "six columns")),
        ("a.jsonl", "", ("a.jsonl",)),
    ],
)
def test_scores_that_are_none_are_refused_in_one_line(tmp_path, name, text, told):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError) as refused:
        read_scored_lists(path)
    assert all(part in str(refused.value) for part in told) and "\n" not in str(refused.value)


def test_padding_is_known():
    padded = [Passage("", "a", None, 100.0), Passage("", "b", None, 0.0), Passage("", "c", None, 0.0)]
    assert ScoredList(None, "q", padded, 1).is_padded
    assert not ScoredList(None, "q", [padded[0], padded[1]._replace(score=0.5)], 1).is_padded
    assert not ScoredList(None, "q", padded[:1], 1).is_padded
