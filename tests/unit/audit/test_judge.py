"""Judgements of people: what a file of them may hold, and what they do to an audit."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from noisyir.audit.judge import how_many, overruled, read_judgements, recalibrated
from noisyir.config import AuditParams
from noisyir.errors import ConfigError, DataError
from noisyir.schemas import AUDIT
from noisyir.stages.audit import AUDIT as AUDIT_STAGE
from tests.unit.audit.world import audit_of, wrong
from tests.unit.stages.audit_world import audit_tables

SMALL = audit_of({("q1", "d1"): {}, ("q2", "d2"): wrong("d9"), ("-q", "=d"): {}, ("7", "8"): {}})


def written(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([("query_id", "doc_id", "verdict"), *rows])
    return path


@pytest.fixture
def audit(run_stage_on):
    """300 pairs, a third of them wrong, audited by the stage; and the folder of the files for people."""
    given = audit_tables(300)
    done = run_stage_on(AUDIT_STAGE, AuditParams(sample=60), given)
    return done["audit"], done["audit_files"]


def test_what_the_page_saves_is_read_with_its_guarded_ids(tmp_path: Path):
    rows = [("q1", "d1", "wrong"), ("'-q", "'=d", "clean"), ("q2", "d2", "unclear"), ("7", "8", " Wrong ")]
    found = read_judgements(written(tmp_path / "judgements.csv", rows), SMALL)
    assert found == {("q1", "d1"): "wrong", ("-q", "=d"): "clean", ("q2", "d2"): "unclear", ("7", "8"): "wrong"}


def test_jsonl_takes_numbers_as_ids_and_leaves_out_what_was_not_judged(tmp_path: Path):
    rows = [{"query_id": 7, "doc_id": 8, "verdict": "clean"}, {"query_id": "q1", "doc_id": "d7", "verdict": None}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_judgements(tmp_path / "mine.jsonl", SMALL) == {("7", "8"): "clean"}


def test_the_sample_file_is_read_once_it_is_filled_in(audit, tmp_path: Path):
    table, folder = audit
    with (folder / "sample.csv").open(encoding="utf-8-sig", newline="") as handle:
        rows = list(csv.DictReader(handle))
    for row in rows[:25]:
        row["verdict"] = "wrong" if int(row["query_id"][1:]) % 3 == 0 else "clean"
    with (tmp_path / "sample.csv").open("w", newline="") as handle:
        out = csv.DictWriter(handle, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    found = read_judgements(tmp_path / "sample.csv", table)
    assert len(found) == 25 and set(found.values()) == {"wrong", "clean"}
    done = recalibrated(table, found)
    assert done.low <= 1 / 3 <= done.high and done.agreed == 1.0


FAULTS = {
    "unknown pairs": (
        [("q1", "d2", "wrong"), ("q9", "d1", "clean"), ("q1", "d1", "clean")],
        r"2 judged pairs are not in this audit: 'q1' with 'd2' \(2\), 'q9' with 'd1' \(3\)",
    ),
    "another word": ([("q1", "d1", "bad")], r"line 2: the verdict must be wrong, clean, unclear or empty, found 'bad'"),
    "both ways": ([("q1", "d1", "clean"), ("q1", "d1", "wrong")], r"line 3: .* is judged wrong, but clean at 2"),
    "no verdict": ([("q1", "d1", "")], "holds no verdict"),
    "no id": ([("", "d1", "clean")], "line 2: query_id must be an id"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_judgements_are_refused_with_their_place(tmp_path: Path, fault: str):
    rows, said = FAULTS[fault]
    with pytest.raises(DataError, match=said):
        read_judgements(written(tmp_path / "judgements.csv", rows), SMALL)


def test_a_missing_file_or_column_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="set --judgements to a"):
        read_judgements(tmp_path / "none.csv", SMALL)
    (tmp_path / "other.csv").write_text("query_id;doc_id;verdict\nq1;d1;clean\n")
    with pytest.raises(DataError, match="lacks the column query_id, doc_id, verdict; it has query_id;doc_id;verdict"):
        read_judgements(tmp_path / "other.csv", SMALL)


def test_the_same_judgement_twice_is_one(tmp_path: Path):
    rows = [("q1", "d1", "clean"), ("q1", "d1", "clean")]
    assert read_judgements(written(tmp_path / "judgements.csv", rows), SMALL) == {("q1", "d1"): "clean"}


def test_people_stand_above_the_machine():
    judged = {("q2", "d2"): "clean", ("q1", "d1"): "wrong", ("7", "8"): "unclear"}
    rows = {row["query_id"]: row for row in overruled(SMALL, judged).to_pylist()}
    assert (rows["q2"]["verdict"], rows["q2"]["p_clean"], rows["q2"]["replacement"]) == ("clean", 1.0, None)
    assert (rows["q1"]["verdict"], rows["q1"]["p_clean"]) == ("wrong", 0.0)
    assert rows["q1"]["reason"] == "Judged wrong by hand."
    assert rows["7"] == next(row for row in SMALL.to_pylist() if row["query_id"] == "7")
    assert overruled(SMALL, {}).equals(SMALL)


def noisy_audit(count: int = 4000) -> tuple[pa.Table, np.ndarray]:
    """An audit whose machine flags too few: the log odds of being wrong are 2 s - 1, and it cuts at s = 1.5."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, count).astype(np.float32)
    said = {
        (f"q{n}", "d"): wrong("z", score=s, p_clean=0.1) if s > 1.5 else {"score": s, "better": ["y"]}
        for n, s in enumerate(scores.tolist())
    }
    return audit_of(said), rng.random(count) < 1 / (1 + np.exp(1 - 2 * scores))


def test_judgements_move_the_threshold_and_the_rate():
    audit, truth = noisy_audit()
    judged = {(f"q{n}", "d"): "wrong" if truth[n] else "clean" for n in range(1500)}
    done = recalibrated(audit, judged | {("q1999", "d"): "unclear"}, rate=0.2)
    assert done.threshold == pytest.approx(0.5, abs=0.12)
    assert done.low <= truth.mean() <= done.high and done.rate_before == 0.2
    assert (done.judged, done.unclear) == (1500, 1)
    scores = audit["score"].to_numpy()
    assert done.flagged_before == (scores > 1.5).sum() < done.flagged
    assert done.agreed == pytest.approx(np.mean(truth[:1500] == (scores[:1500] > 1.5)))
    rows = done.table.to_pylist()
    assert done.table.schema.equals(AUDIT.schema)
    for number, row in enumerate(rows[1500:], 1500):
        assert (row["verdict"] == "wrong") == (row["p_clean"] < 0.5) == (scores[number] > done.threshold)
        assert (row["replacement"] is not None) == (row["verdict"] == "wrong")
    newly = next(row for row in rows[1500:] if row["verdict"] == "wrong" and row["score"] < 1.5)
    assert newly["replacement"] == "y" and newly["reason"].startswith("By 1,500 judgements, pairs of this score are")
    assert all(row["verdict"] == ("wrong" if truth[n] else "clean") for n, row in enumerate(rows[:1500]))
    assert done.flagged == pc.sum(pc.equal(done.table["verdict"], "wrong")).as_py()
    text = done.summary()
    assert "judged      1,500 pairs, 1 unclear" in text and "20.0% before" in text and "flagged" in text


def test_reasons_quote_the_new_chance():
    old = (
        "The document shares 1 telling word with the query; its score 1.00 lies among those of right pairs (chance of "
    )
    audit = audit_of({
        (f"q{n}", "d"): {"score": float(n), "p_clean": 0.75, "reason": f"{old}being right 0.75)."} for n in range(20)
    })  # fmt: skip
    judged = {(f"q{n}", "d"): "wrong" if n >= 10 else "clean" for n in range(0, 20, 2)}
    rows = recalibrated(audit, judged).table.to_pylist()
    assert rows[1]["reason"].endswith("right >0.99).") or f"right {rows[1]['p_clean']:.2f})." in rows[1]["reason"]
    assert "0.75" not in rows[1]["reason"] and rows[1]["verdict"] == "clean"


def test_without_a_rate_the_share_of_flagged_is_what_was_known(audit):
    table, _ = audit
    judged = {("q0", "d1"): "wrong", ("q1", "d1"): "clean"}
    assert recalibrated(table, judged).rate_before == pytest.approx(1 / 3)


def test_judgements_that_tell_nothing_are_refused():
    audit, _ = noisy_audit(50)
    with pytest.raises(DataError, match="judge at least one of either kind"):
        recalibrated(audit, {("q1", "d"): "unclear"})
    with pytest.raises(DataError, match="all 1 judged pairs are clean"):
        recalibrated(audit, {("q1", "d"): "clean"})
    with pytest.raises(ConfigError, match="between 0 and 1, not 1"):
        recalibrated(audit, {("q1", "d"): "clean"}, 1.0)


def test_how_many_is_said_in_words():
    assert how_many(0.2, 0.02, 0.95, 10**9) == "To know the rate within ± 2 points at 95 %: judge 1,537 pairs"
    assert how_many(0.2, 0.025, 0.9, 5) == "To know the rate within ± 2.5 points at 90 %: judge all 5 pairs"
    with pytest.raises(ConfigError, match="between 0 and 1"):
        how_many(0.2, 0.02, 95, 100)
    with pytest.raises(ConfigError, match="error of a noise rate"):
        how_many(0.2, 2, 0.95, 100)
