"""Judgements of people: what files of them may hold, and what several judges say together."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from noisyir.audits.settings import AuditParams
from noisyir.base.errors import DataError
from noisyir.detection.judgements import (
    HumanJudgement,
    drawn_at_random,
    given_judgements,
    judgements_digest,
    read_judgements,
)
from tests.refusals import refuses
from tests.unit.stages.audit_world import judged_as

SMALL = pa.table({"query_id": ["q1", "q2", "-q", "7"], "doc_id": ["d1", "d2", "=d", "8"]})


def verdicts(found):
    return {pair: judged.verdict for pair, judged in found.items()}


def said(path: Path, *rows: dict) -> str:
    """The path of a jsonl file of judgements of the pair (q1, d1), unless a row says otherwise."""
    path.write_text("".join(json.dumps({"query_id": "q1", "doc_id": "d1"} | row) + "\n" for row in rows))
    return str(path)


def test_what_the_page_saves_is_read_with_its_guarded_ids(tmp_path: Path):
    rows = [("q1", "d1", "wrong"), ("'-q", "'=d", "clean"), ("q2", "d2", "unclear"), ("7", "8", " Wrong ")]
    found = read_judgements([judged_as(tmp_path / "judgements.csv", rows)], SMALL)
    assert verdicts(found) == {
        ("q1", "d1"): "wrong", ("-q", "=d"): "clean", ("q2", "d2"): "unclear", ("7", "8"): "wrong",
    }  # fmt: skip
    assert drawn_at_random(found) == 0


def test_jsonl_takes_numbers_as_ids_and_leaves_out_what_was_not_judged(tmp_path: Path):
    rows = [{"query_id": 7, "doc_id": 8, "verdict": "clean"}, {"query_id": "q1", "doc_id": "d7", "verdict": None}]
    found = read_judgements([said(tmp_path / "mine.jsonl", *rows)], SMALL)
    assert found == {("7", "8"): HumanJudgement("clean")}


def test_weight_and_replacement_are_read_and_other_words_for_verdicts(tmp_path: Path):
    (tmp_path / "a.csv").write_text(
        "query_id,doc_id,verdict,weight,replacement\nq1,d1,Right,12.5,\nq2,d2,unsure,3,\n'-q,'=d,wrong,,'=e\n"
    )
    found = given_judgements([str(tmp_path / "a.csv")])
    assert found == {
        ("q1", "d1"): HumanJudgement("clean", 12.5),
        ("q2", "d2"): HumanJudgement("unclear", 3.0),
        ("-q", "=d"): HumanJudgement("wrong", None, "=e"),
    }
    assert drawn_at_random(found) == 1, "an unclear pair tells nothing"


def test_several_files_are_one(tmp_path: Path):
    first = said(tmp_path / "a.jsonl", {"verdict": "wrong", "weight": 2})
    second = said(tmp_path / "b.jsonl", {"verdict": "wrong", "replacement": "d2"}, {"doc_id": "d2", "verdict": "clean"})
    expected = {("q1", "d1"): HumanJudgement("wrong", 2.0, "d2"), ("q1", "d2"): HumanJudgement("clean")}
    assert given_judgements([first, second]) == expected
    assert AuditParams(judgements=first).judgement_files == (first,)
    assert AuditParams(judgements=[first, second]).judgement_files == (first, second)
    assert digest([first, second]) == digest([second, first]) != digest(first)


def test_of_several_judges_the_majority_counts_and_a_tie_is_unclear(tmp_path: Path):
    def together(*words: str) -> str:
        rows = [{"judge": f"judge {number}", "verdict": word} for number, word in enumerate(words)]
        return given_judgements([said(tmp_path / "a.jsonl", *rows)])["q1", "d1"].verdict

    assert together("wrong", "clean", "wrong") == "wrong"
    assert (
        together("wrong", "clean") == together("wrong", "unclear") == together("wrong", "clean", "unclear") == "unclear"
    )
    assert together("wrong", "clean", "clean", "unclear") == "clean"


def test_the_replacement_is_the_one_that_most_name_of_those_who_call_the_pair_wrong(tmp_path: Path):
    def named(*rows: tuple[str, str | None]) -> str | None:
        said_by = [
            {"judge": str(number), "verdict": verdict, "replacement": doc} for number, (verdict, doc) in enumerate(rows)
        ]
        return given_judgements([said(tmp_path / "a.jsonl", *said_by)])["q1", "d1"].replacement

    assert named(("wrong", "x"), ("wrong", None)) == "x"
    assert named(("wrong", "x"), ("wrong", "y"), ("wrong", "x")) == "x"
    assert named(("wrong", "x"), ("wrong", "y")) is None
    assert named(("clean", None), ("wrong", "x")) is None, "unclear pairs are not given away"


def test_a_judge_who_thinks_again_is_taken_at_her_last_word(tmp_path: Path):
    rows = [
        {"verdict": "wrong", "at": "2026-03-01T10:00:00Z", "weight": 4},
        {"verdict": "clean", "at": "2026-03-01T12:30:00+01:00"},
        {"verdict": "wrong", "at": "2026-03-01T11:00"},
    ]
    assert given_judgements([said(tmp_path / "a.jsonl", *rows)])["q1", "d1"] == HumanJudgement("clean", 4.0)
    assert given_judgements([said(tmp_path / "b.jsonl", *reversed(rows))])["q1", "d1"] == HumanJudgement("clean", 4.0)
    same = [{"verdict": "wrong", "at": 5}, {"verdict": "clean", "at": 5.0}]
    for rows in (same, [{"verdict": "wrong"}, {"verdict": "clean", "at": 5}]):
        with refuses(DataError, "detection.contradicting_verdicts", verdict="clean", other_verdict="wrong"):
            given_judgements([said(tmp_path / "c.jsonl", *rows)])
    for cure in ({"judge": "ann"}, {"at": 6}):
        rows = [{"verdict": "wrong", "at": 5}, {"verdict": "clean", "at": 5} | cure]
        assert given_judgements([said(tmp_path / "d.jsonl", *rows)])


FAULTS = {
    "unknown pairs": (
        [("q1", "d2", "wrong"), ("q9", "d1", "clean"), ("q1", "d1", "clean")],
        r"2 of 3 judged pairs are not in this audit: 'q1' with 'd2' \(.* line 2\), 'q9' with 'd1' \(.* line 3\)",
    ),
    "another file's": (
        [("q7", "d2", "wrong"), ("q9", "d1", "clean")],
        r"these judgements are of other pairs, for none of the 2 is in this audit",
    ),
    "another word": ([("q1", "d1", "bad")], r"line 2: the verdict is 'bad': write right, wrong or unsure"),
    "both ways": (
        [("q1", "d1", "clean"), ("q1", "d1", "wrong")],
        r"line 3: .* is judged wrong, but clean at .*line 2: remove one",
    ),
    "no verdict": ([("q1", "d1", "")], "holds no verdict of a person"),
    "weight": ([("q1", "d1", "clean", "0")], "line 2: the weight '0' is no number of pairs"),
    "endless weight": ([("q1", "d1", "clean", "inf")], "line 2: the weight 'inf' is no number of pairs"),
    "time": ([("q1", "d1", "clean", "", "yesterday")], "line 2: at is 'yesterday': write a time such as"),
    "no id": ([("", "d1", "clean")], "line 2: query_id must be an id"),
}


def digest(paths: str | list[str] | None) -> str | None:
    return judgements_digest(AuditParams(judgements=paths).judgement_files)


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_judgements_are_refused_with_their_place(tmp_path: Path, fault: str):
    rows, said = FAULTS[fault]
    path = judged_as(tmp_path / "judgements.csv", rows)
    with pytest.raises(DataError, match=said):
        read_judgements([path], SMALL)
    if fault in ("unknown pairs", "another file's"):  # which the file alone does not show
        assert digest(path)
    else:
        with pytest.raises(DataError, match=said):
            digest(path)


@pytest.mark.parametrize("read", [digest, lambda path: read_judgements([path], SMALL)])
def test_a_missing_file_or_column_is_refused(tmp_path: Path, read):
    with refuses(DataError, "data.no_row_file", setting="audit.judgements"):
        read(str(tmp_path / "none.csv"))
    (tmp_path / "other.csv").write_text("query_id#doc_id#verdict\nq1#d1#clean\n")
    with refuses(
        DataError, "detection.missing_columns", missing="query_id, doc_id, verdict", columns="query_id#doc_id#verdict"
    ):
        read(str(tmp_path / "other.csv"))


def test_the_digest_is_of_the_content_wherever_it_lies(tmp_path: Path):
    (tmp_path / "there").mkdir()
    one, same = (judged_as(folder / "j.csv", [("q1", "d1", "clean")]) for folder in (tmp_path, tmp_path / "there"))
    other = judged_as(tmp_path / "other.csv", [("q1", "d1", "wrong")])
    assert digest(one) == digest(same) != digest(other)
    assert digest(None) is None


def test_the_same_judgement_twice_is_one(tmp_path: Path):
    rows = [("q1", "d1", "clean"), ("q1", "d1", "clean")]
    assert read_judgements([judged_as(tmp_path / "judgements.csv", rows)], SMALL) == {
        ("q1", "d1"): HumanJudgement("clean")
    }


def test_an_empty_verdict_with_a_time_takes_back_what_the_same_judge_said(tmp_path: Path):
    pair = {"query_id": "q1", "doc_id": "d1", "draw": "random", "weight": 2.0, "replacement": None}
    ann = [
        {**pair, "verdict": "wrong", "judge": "ann", "at": "2026-01-01T09:00:00+00:00"},
        {**pair, "verdict": None, "judge": "ann", "at": "2026-01-01T09:00:01+00:00"},
    ]
    bob = {**pair, "verdict": "clean", "judge": "bob", "at": "2026-01-01T08:00:00+00:00"}
    assert given_judgements([said(tmp_path / "ann.jsonl", *ann)]) == {}
    both = given_judgements([said(tmp_path / "both.jsonl", *ann, bob)])
    assert both == {("q1", "d1"): HumanJudgement("clean", 2.0)}
    again = {**ann[0], "verdict": "clean", "at": "2026-01-01T09:00:02+00:00"}
    found = given_judgements([said(tmp_path / "again.jsonl", *ann, again)])
    assert found == {("q1", "d1"): HumanJudgement("clean", 2.0)}
