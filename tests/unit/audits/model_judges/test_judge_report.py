"""What a judge's answers come to, against a truth that the test knows; and the files of judgements."""

import json

import numpy as np
import pytest

from noisyir.audits.files import replace_jsonl
from noisyir.audits.model_judges.judge_report import AskedPair, judge_report
from noisyir.audits.model_judges.judges import Answer, JudgeUsage
from noisyir.base.errors import DataError, StoreError
from noisyir.detection.judgements import HumanJudgement, given_judgements
from tests.refusals import refuses

WRONG, CLEAN, UNCLEAR = Answer("wrong", 1.0), Answer("clean", 0.0), Answer("unclear", 0.5)
PAIRS = 5000


def asked(*parts):
    """(draw, answer, what people say, how often) as a list."""
    return [AskedPair(draw, answer, people) for draw, answer, people, count in parts for _ in range(count)]


def by_people(wrong, weight):
    return HumanJudgement("wrong" if wrong else "clean", weight)


def report(*parts, spent=None):
    return judge_report("model:m@v1", PAIRS, asked(*parts), spent or JudgeUsage(calls=7))


def test_the_rate_is_that_of_the_random_part_alone():
    found = report(
        ("random", WRONG, None, 30), ("random", CLEAN, None, 60), ("random", UNCLEAR, None, 6),
        ("random", None, None, 4), ("teaching", WRONG, None, 300),
    )  # fmt: skip
    assert (found.asked, found.answered, found.unclear, found.drawn, found.decided) == (400, 396, 6, 100, 90)
    assert found.said.value == pytest.approx(1 / 3) and found.said.low < 1 / 3 < found.said.high
    assert found.corrected is None and "people judged none of these pairs" in found.summary()
    assert "33.3 % [24.5 %, 43.5 %] at 95 % wrong, by 90 decided of 100 pairs drawn at random" in found.summary()


def test_without_a_random_part_there_is_no_rate():
    found = report(("teaching", WRONG, by_people(True, None), 30), ("", CLEAN, by_people(False, None), 30))
    assert found.said is None and found.corrected is None
    assert "none of the 0 pairs drawn at random was decided" in found.summary()
    assert "no pair that was drawn at random was decided" in found.summary()


def test_the_judge_s_error_is_taken_out_where_people_judged_enough():
    found = report(
        ("random", WRONG, None, 38), ("random", CLEAN, None, 162),
        ("", WRONG, by_people(True, None), 40), ("", CLEAN, by_people(True, None), 10),
        ("", WRONG, by_people(False, None), 5), ("", CLEAN, by_people(False, None), 45),
    )  # fmt: skip
    assert found.error == (0.8, 50, 0.9, 50) and not found.at_random
    assert found.corrected.by == "sensitivity and specificity"
    assert found.corrected.rate.value == pytest.approx((0.19 + 0.9 - 1) / 0.7)
    assert "finds 80 % of the 50 that they call wrong and passes 90 % of the 50 that they call clean" in found.summary()
    assert "not drawn at random" in found.summary() and "corrected   12.9 % [" in found.summary()


def test_people_s_random_sample_is_helped_by_the_judge():
    found = report(
        ("random", WRONG, None, 38), ("random", CLEAN, None, 162), ("random", WRONG, by_people(True, 25.0), 2),
        ("", WRONG, by_people(True, 25.0), 20), ("", CLEAN, by_people(True, 25.0), 5),
        ("", WRONG, by_people(False, 25.0), 7), ("", CLEAN, by_people(False, 25.0), 66),
        ("", WRONG, by_people(False, None), 500),
    )  # fmt: skip
    assert found.at_random and found.error.wrong == 27 and found.corrected.by == "people and judge"
    assert 0.15 < found.corrected.rate.low < found.corrected.rate.value < 0.27


def test_a_sample_of_uneven_weights_is_not_taken_for_an_even_one():
    found = report(
        ("random", WRONG, None, 38), ("random", CLEAN, None, 162),
        ("", WRONG, by_people(True, 5.0), 20), ("", CLEAN, by_people(False, 50.0), 60),
    )  # fmt: skip
    assert found.corrected.by == "sensitivity and specificity"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            [("", WRONG, by_people(True, None), 9), ("", CLEAN, by_people(False, None), 90)],
            "too few pairs that both judged",
        ),
        (
            [("", WRONG, by_people(False, None), 40), ("", CLEAN, by_people(True, None), 40)],
            "does no better than a coin",
        ),
        ([("", UNCLEAR, by_people(True, None), 40), ("", None, by_people(False, None), 40)], "people judged none"),
    ],
)
def test_what_cannot_be_corrected_is_said(parts, said):
    found = report(("random", WRONG, None, 20), ("random", CLEAN, None, 50), *parts)
    assert found.corrected is None and said in found.summary()


def test_corrections_find_a_known_rate():
    """A judge of known error, people's random sample and a random part of its own, drawn 300 times."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        wrong = rng.random(400) < 0.3
        says = np.where(wrong, rng.random(400) < 0.8, rng.random(400) > 0.9)
        rows = [
            AskedPair("random", WRONG if says[row] else CLEAN, None)
            if row < 320
            else AskedPair("", WRONG if says[row] else CLEAN, by_people(bool(wrong[row]), 62.5))
            for row in range(400)
        ]
        rate = judge_report("model:m@v1", PAIRS, rows, JudgeUsage()).corrected.rate
        held += rate.low <= 0.3 <= rate.high
    assert held >= 276  # 92 %: three standard errors below 95


def test_what_it_took_and_why_it_stopped_is_said():
    spent = JudgeUsage(
        calls=1200, kept=3, prompt_tokens=100_000, completion_tokens=2000, unmetered=4, left=17, stopped="x",
        in_words="status 400",
    )  # fmt: skip
    spent.faults.update({"status 500": 1100, "a": 2, "b": 1, "c": 1})
    text = report(("random", WRONG, None, 40), spent=spent).summary()
    assert "asked 23 pairs" in text and "3 of them kept from before" in text and "; 17 more were not reached" in text
    assert "1,200 calls, 102,000 tokens (100,000 read, 2,000 written), 4 calls of unknown size" in text
    assert "in words    its words were taken, for it gives no probability (status 400)" in text
    assert "1,100 x status 500; 2 x a; 1 x b" in text and "stopped     x; the answers so far are kept" in text


LINE = dict(judge="model:m@v1", draw="random", weight=2.0, replacement=None, at="2026-01-01T00:00:00+00:00")


def test_a_model_s_judgements_are_no_person_s(tmp_path):
    path = tmp_path / "made" / "model_judgements.jsonl"
    said = [
        dict(query_id="q\u2028", doc_id=str(number), verdict="wrong", reason="é\n\x1b[1m", **LINE)
        for number in range(3)
    ]
    replace_jsonl(said, path)
    replace_jsonl(said, path)
    lines = path.read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == said and lines[-1] == b""
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with refuses(DataError, "detection.no_human_verdicts"):
        given_judgements([str(path)])
    path.chmod(0o600)
    (tmp_path / "file").write_text("")
    with refuses(StoreError, "audits.cannot_write"):
        replace_jsonl(said, tmp_path / "file" / "model_judgements.jsonl")
