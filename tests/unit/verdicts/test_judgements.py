"""Judgements of people: what a file of them may hold, and what they do to an audit."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from noisyir.errors import ConfigError, DataError
from noisyir.verdicts.judgements import how_many, judgements_digest, read_judgements, recalibrated
from noisyir.verdicts.settings import AuditParams
from tests.unit.stages.audit_world import judged_as

SMALL = pa.table({"query_id": ["q1", "q2", "-q", "7"], "doc_id": ["d1", "d2", "=d", "8"]})


def test_what_the_page_saves_is_read_with_its_guarded_ids(tmp_path: Path):
    rows = [("q1", "d1", "wrong"), ("'-q", "'=d", "clean"), ("q2", "d2", "unclear"), ("7", "8", " Wrong ")]
    found = read_judgements(judged_as(tmp_path / "judgements.csv", rows), SMALL)
    assert found == {("q1", "d1"): "wrong", ("-q", "=d"): "clean", ("q2", "d2"): "unclear", ("7", "8"): "wrong"}


def test_jsonl_takes_numbers_as_ids_and_leaves_out_what_was_not_judged(tmp_path: Path):
    rows = [{"query_id": 7, "doc_id": 8, "verdict": "clean"}, {"query_id": "q1", "doc_id": "d7", "verdict": None}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_judgements(str(tmp_path / "mine.jsonl"), SMALL) == {("7", "8"): "clean"}


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


def digest(path: str | None) -> str | None:
    return judgements_digest(AuditParams(judgements=path))


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_judgements_are_refused_with_their_place(tmp_path: Path, fault: str):
    rows, said = FAULTS[fault]
    path = judged_as(tmp_path / "judgements.csv", rows)
    with pytest.raises(DataError, match=said):
        read_judgements(path, SMALL)
    if fault == "unknown pairs":  # the only fault that the file alone does not show
        assert digest(path)
    else:
        with pytest.raises(DataError, match=said):
            digest(path)


@pytest.mark.parametrize("read", [digest, lambda path: read_judgements(path, SMALL)])
def test_a_missing_file_or_column_is_refused(tmp_path: Path, read):
    with pytest.raises(DataError, match=r"none\.csv is not a file: set audit.judgements to a"):
        read(str(tmp_path / "none.csv"))
    (tmp_path / "other.csv").write_text("query_id;doc_id;verdict\nq1;d1;clean\n")
    with pytest.raises(DataError, match="lacks the column query_id, doc_id, verdict; it has query_id;doc_id;verdict"):
        read(str(tmp_path / "other.csv"))


def test_the_digest_is_of_the_content_wherever_it_lies(tmp_path: Path):
    (tmp_path / "there").mkdir()
    one, same = (judged_as(folder / "j.csv", [("q1", "d1", "clean")]) for folder in (tmp_path, tmp_path / "there"))
    other = judged_as(tmp_path / "other.csv", [("q1", "d1", "wrong")])
    assert digest(one) == digest(same) != digest(other)
    assert digest(None) is None


def test_the_same_judgement_twice_is_one(tmp_path: Path):
    rows = [("q1", "d1", "clean"), ("q1", "d1", "clean")]
    assert read_judgements(judged_as(tmp_path / "judgements.csv", rows), SMALL) == {("q1", "d1"): "clean"}


def judged_pairs(scores, p_clean=0.9, threshold=1.5) -> pa.Table:
    """Pairs (q0, d), (q1, d), ... that the machine calls wrong above the threshold."""
    return pa.table(
        {
            "query_id": [f"q{n}" for n in range(len(scores))],
            "doc_id": ["d"] * len(scores),
            "score": pa.array(scores, pa.float32()),
            "verdict": np.where(np.asarray(scores) > threshold, "wrong", "clean"),
            "p_clean": pa.array(np.full(len(scores), p_clean), pa.float32()),
            "by_hand": np.zeros(len(scores), bool),
        }
    )


def anew(pairs, judgements, **settings):
    return recalibrated(pairs, judgements, **{"threshold": 0.5, "rate": 0.2, "confidence": 0.95} | settings)


def noisy_pairs(count: int = 4000) -> tuple[pa.Table, np.ndarray]:
    """Pairs of which the machine flags too few: the log odds of being wrong are 2 s - 1, and it cuts at s = 1.5."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, count).astype(np.float32)
    return judged_pairs(scores), rng.random(count) < 1 / (1 + np.exp(1 - 2 * scores))


def test_judgements_move_the_threshold_and_the_rate():
    pairs, truth = noisy_pairs()
    judged = {(f"q{n}", "d"): "wrong" if truth[n] else "clean" for n in range(1500)}
    table, found = anew(pairs, judged | {("q1999", "d"): "unclear"})
    assert found.threshold == pytest.approx(0.5, abs=0.12)
    assert found.low <= truth.mean() <= found.high and found.rate_before == 0.2
    assert (found.judged, found.unclear) == (1500, 1)
    scores, is_wrong = pairs["score"].to_numpy(), np.array(table["verdict"].to_pylist()) == "wrong"
    assert found.flagged_before == (scores > 1.5).sum() < found.flagged == is_wrong.sum()
    assert found.agreed == pytest.approx(np.mean(truth[:1500] == (scores[:1500] > 1.5)))
    assert table.schema.equals(pairs.schema)
    p_clean = table["p_clean"].to_numpy()
    np.testing.assert_array_equal(is_wrong[1500:], p_clean[1500:] < 0.5)
    np.testing.assert_array_equal(is_wrong[1500:], scores[1500:] > found.threshold)
    assert np.all(np.diff(p_clean[1500:][scores[1500:].argsort()]) <= 0)
    text = found.summary()
    assert "judged      1,500 pairs, 1 unclear" in text and "20.0% before" in text and "flagged" in text


def test_people_stand_above_the_machine_and_are_marked():
    pairs, truth = noisy_pairs(400)
    judged = {(f"q{n}", "d"): "clean" if truth[n] else "wrong" for n in (0, 1)}  # against what the scores say
    judged |= {(f"q{n}", "d"): "wrong" if truth[n] else "clean" for n in range(2, 300)}
    table, _ = anew(pairs, judged | {("q300", "d"): "unclear"})
    rows = table.to_pylist()
    for row in rows[:300]:
        verdict = judged[row["query_id"], "d"]
        assert (row["verdict"], row["p_clean"], row["by_hand"]) == (verdict, float(verdict == "clean"), True)
    assert not any(row["by_hand"] for row in rows[300:])


def test_only_people_are_certain():
    """Whatever the scores, so that a table of verdicts tells which of them are people's."""
    pairs = judged_pairs([*np.linspace(0, 1, 100), 1e6, -1e6])
    judged = {(f"q{n}", "d"): "wrong" if n > 50 else "clean" for n in range(0, 100, 3)}
    table, _ = anew(pairs, judged)
    certain = np.isin(table["p_clean"].to_numpy(), [0, 1])
    np.testing.assert_array_equal(certain, table["by_hand"].to_numpy(zero_copy_only=False))
    assert table["verdict"].to_pylist()[-2:] == ["wrong", "clean"]


@pytest.mark.parametrize("threshold", [1e-50, 1 - 1e-12])
def test_a_judged_pair_keeps_its_verdict_at_any_threshold(threshold):
    judged = {("q1", "d"): "clean", ("q8", "d"): "wrong"}
    table, _ = anew(judged_pairs(np.arange(10.0)), judged, threshold=threshold)
    verdicts = table["verdict"].to_pylist()
    assert (verdicts[1], verdicts[8]) == ("clean", "wrong")


def test_judgements_that_tell_nothing_are_refused():
    pairs, _ = noisy_pairs(50)
    with pytest.raises(DataError, match="judge at least one of either kind"):
        anew(pairs, {("q1", "d"): "unclear"})
    with pytest.raises(DataError, match="all 1 judged pairs are clean"):
        anew(pairs, {("q1", "d"): "clean"})
    with pytest.raises(ConfigError, match="between 0 and 1 when pairs are judged, not 1"):
        anew(pairs, {("q1", "d"): "clean"}, threshold=1.0)


def test_how_many_is_said_in_words():
    assert how_many(0.2, 0.02, 0.95, 10**9) == "To know the rate within ± 2 points at 95 %: judge 1,537 pairs"
    assert how_many(0.2, 0.025, 0.9, 5) == "To know the rate within ± 2.5 points at 90 %: judge all 5 pairs"
    with pytest.raises(ConfigError, match="between 0 and 1"):
        how_many(0.2, 0.02, 95, 100)
    with pytest.raises(ConfigError, match="error of a noise rate"):
        how_many(0.2, 2, 0.95, 100)
