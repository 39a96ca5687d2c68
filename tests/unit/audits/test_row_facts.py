"""What `noisyir show --query` tells of rows: of a reader's question, of a pair that noise replaced, of verdicts."""

import pytest

from noisyir.audits.row_facts import Fact, RowQuery, facts_of

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


MOST = Fact("most confidence, of 2 labelled passages", "b", score=0.5)
AFTER = Fact("confidence after 6 updates, 0.200 at the start", "a", score=0.5)
PLACED = [Fact(f"labelled 'Paris' at {start}", doc_id, score=1.0) for doc_id, start, *_ in PLACES]


def found(artifact, rows, doc_id=None, documents=("a",), **params):
    facts = facts_of(artifact, rows, RowQuery(doc_id, (doc_id,) if doc_id else documents, params))
    return [fact if fact.score is None else fact._replace(score=round(fact.score, 6)) for fact in facts]


@pytest.mark.parametrize(
    ("artifact", "rows", "doc_id", "facts"),
    [
        ("confidences", CONFIDENCES, "a", [AFTER, MOST]),
        ("confidences", CONFIDENCES, "z", [Fact("no label, so no confidence", "z"), MOST]),
        ("confidences", CONFIDENCES, None, [AFTER, MOST]),
        ("confidences", [], "a", []),
        ("spans", SPANS, "a", PLACED[:2]),
        ("spans", SPANS, "z", [Fact("no answer in it, but in a, b", "z")]),
        ("spans", SPANS, None, [Fact("labelled in 2 passages"), *PLACED]),
        ("spans", [*SPANS, *SPANS], None, [Fact("labelled in 2 passages"), *PLACED, Fact("and 3 more")]),
        ("passages", PASSAGES, "c", [
            Fact("read in 3 passages, 2 of them with an answer"), Fact("without an answer", "c", 3, 1.0)]),
        ("passages", PASSAGES, None, [Fact("read in 3 passages, 2 of them with an answer")]),
        ("confusing", CONFUSING, "a", [
            Fact(f"without the answer, {name} is like it", "a", rank, 1.0) for rank, name in ((1, "x"), (2, "y"))]),
        ("readings", READINGS, None, [Fact("answered 'Paris'", "a", 1, 2.5), Fact("answered 'Lyon'", "b", 2, 2.5)]),
        ("readings", READINGS, "b", [Fact("answered 'Lyon'", "b", 2, 2.5)]),
        ("gold_run", PASSAGES, "a", []),
    ],
)  # fmt: skip
def test_the_tables_of_readers(artifact, rows, doc_id, facts):
    assert found(artifact, rows, doc_id) == facts


def test_a_pair_that_was_replaced_is_told_with_the_one_put_in():
    truth = [{"query_id": "q", "doc_id": "put", "is_noisy": True, "kind": "uniform"}]
    put_in = Fact("put in on purpose (uniform), wrong", "put")
    assert found("noise_truth", truth, "true", rate=0.4) == [Fact("no longer paired", "true"), put_in]
    assert found("noise_truth", truth, "put", rate=0.4) == found("noise_truth", truth, rate=0.4) == [put_in]
    assert found("noise_truth", truth, "put", rate=0.0) == []
    left = [{**truth[0], "is_noisy": False}]
    assert found("noise_truth", left, "put", rate=0.4) == [Fact("left as it was", "put")]
    assert found("noise_truth", left, "true", rate=0.4) == []


def test_a_judge_that_drops_nothing_is_told():
    verdicts = [{"query_id": "q", "doc_id": "a", "score": 0.1, "bound": 0.5, "keep": True, "reason": ""}]
    assert found("verdicts", verdicts) == [Fact("0 of 1 candidates are dropped")]
    assert found("verdicts", verdicts, "a") == [Fact("kept; its bound is 0.500", "a", score=0.1)]
