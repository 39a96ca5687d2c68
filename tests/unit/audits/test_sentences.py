"""What `noisyir show --query` says of a question that a reader was trained on, or was asked."""

import pytest

from noisyir.audits.row_sentences import RowQuery, describe

KEY = {"query_id": "q", "start": 3, "end": 8}
PLACES = [("a", 3, 0.1, 0.3), ("a", 40, 0.1, 0.2), ("b", 3, 0.8, 0.5)]
CONFIDENCES = [
    {**KEY, "doc_id": doc_id, "start": start, "update": update, "value": values[update // 6]}
    for doc_id, start, *values in PLACES
    for update in (0, 6)
]
SPANS = [{**KEY, "doc_id": doc_id, "start": start, "answer": "Paris", "score": 1.0} for doc_id, start, *_ in PLACES]
PASSAGES = [
    {"query_id": "q", "doc_id": name, "rank": n, "score": 1.0, "has_answer": name != "c"}
    for n, name in enumerate("abc", 1)
]
CONFUSING = [
    {"query_id": "q", "doc_id": "a", "confusing": name, "rank": rank, "score": 1.0}
    for rank, name in ((2, "y"), (1, "x"))
]
READINGS = [
    {**KEY, "doc_id": name, "rank": rank, "answer": text, "score": 2.5}
    for rank, name, text in ((2, "b", "Lyon"), (1, "a", "Paris"))
]


def said(artifact, rows, doc_id=None, documents=("a",)):
    return describe(artifact, rows, RowQuery(doc_id, (doc_id,) if doc_id else documents, {}))[0]


@pytest.mark.parametrize(
    ("artifact", "rows", "doc_id", "says"),
    [
        ("confidences", CONFIDENCES, "a", [
            "confidence in a 0.200 at the start, 0.500 after 6 updates",
            "most confidence in b: 0.500, of 2 labelled passages"]),
        ("confidences", CONFIDENCES, "z", [
            "no label in z, so no confidence", "most confidence in b: 0.500, of 2 labelled passages"]),
        ("confidences", CONFIDENCES, None, [
            "confidence in a 0.200 at the start, 0.500 after 6 updates",
            "most confidence in b: 0.500, of 2 labelled passages"]),
        ("confidences", [], "a", []),
        ("spans", SPANS, "a", ["labelled in a: 'Paris' at 3, 'Paris' at 40"]),
        ("spans", SPANS, "z", ["no answer in z, but in a, b"]),
        ("spans", SPANS, None, ["labelled in 2 passages: 'Paris' at 3, 'Paris' at 40, 'Paris' at 3"]),
        ("passages", PASSAGES, "c", [
            "read in 3 passages, 2 of them with an answer",
            "c is number 3 of them, without one"]),
        ("passages", PASSAGES, None, ["read in 3 passages, 2 of them with an answer"]),
        ("confusing", CONFUSING, "a", ["like a but without the answer: x, y"]),
        ("confusing", CONFUSING, None, []),
        ("readings", READINGS, None, ["answered 'Paris' from a (score 2.500)"]),
        ("readings", READINGS, "b", ["'Lyon' in b is answer 2"]),
        ("gold_run", PASSAGES, "a", []),
    ],
)  # fmt: skip
def test_the_tables_of_readers_in_words(artifact, rows, doc_id, says):
    assert said(artifact, rows, doc_id) == says
