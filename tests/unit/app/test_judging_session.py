"""A session of judging: what is asked, what is kept, and what survives a kill."""

import json
import os
import time
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

from noisyir.audits.judging import journal as journals
from noisyir.audits.judging.journal import Journal, JournalEntry
from noisyir.audits.judging.session import BATCH, random_order
from noisyir.base.errors import DataError, StoreError
from noisyir.detection.judgements import given_judgements
from tests.local import until
from tests.refusals import refuses
from tests.unit.app.judging_world import Learner, pair_of, pairs, session


def lines(folder):
    return [json.loads(line) for line in (folder / "judgements.jsonl").read_text().splitlines()]


def answer_next(of, verdict="clean", replacement=None):
    (shown,) = of.next_pairs(1)
    of.answer(pair_of(shown), verdict, replacement)
    return pair_of(shown)


def test_any_part_of_the_random_order_is_balanced_by_score():
    order = random_order(np.random.default_rng(1).normal(size=1003), np.random.default_rng(0))
    assert sorted(order.rows) == list(range(1003))
    scores = np.random.default_rng(1).normal(size=1003)
    tenth = np.argsort(np.argsort(scores)) * 10 // 1003
    for size in (10, 50, 500):
        assert set(np.bincount(tenth[order.rows[:size]], minlength=10)) == {size // 10}
    assert order.weights[:50].sum() == pytest.approx(1003)
    assert not np.array_equal(order.rows[:10], random_order(scores, np.random.default_rng(7)).rows[:10])


def test_each_pair_of_a_tenth_is_as_likely_to_come_first():
    first = [random_order(np.arange(40.0), np.random.default_rng(seed)).rows[:10] for seed in range(2000)]
    share = np.bincount(np.concatenate(first), minlength=40) / 2000
    assert np.abs(share - 0.25).max() < 0.05


def test_an_answer_is_on_the_disk_before_it_is_acknowledged(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(journals.os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    one = session(tmp_path)
    answer_next(one, "wrong", "o1")
    assert synced == [(tmp_path / "judgements.jsonl").stat().st_size]
    (line,) = lines(tmp_path)
    assert list(line) == ["query_id", "doc_id", "verdict", "judge", "weight", "replacement", "at"]
    assert (line["verdict"], line["judge"], line["replacement"]) == ("wrong", "ann", "o1")
    assert line["weight"] == 120 / 50 and line["at"].endswith("+00:00")


def test_a_session_goes_on_where_it_was_killed_and_drops_a_half_line(tmp_path):
    one = session(tmp_path)
    answered = [answer_next(one) for _ in range(7)]
    following = [pair_of(shown) for shown in one.next_pairs(5)]
    path = tmp_path / "judgements.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:60])  # killed while it wrote
    two = session(tmp_path)
    assert [pair_of(shown) for shown in two.next_pairs(5)] == following
    assert two.state()["judged"] == 7 and path.read_bytes() == whole
    assert answer_next(two) not in answered


def test_a_line_that_is_no_answer_is_refused_with_its_place(tmp_path):
    answer_next(session(tmp_path))
    path = tmp_path / "judgements.jsonl"
    path.write_text('{"query_id": "q0000", "verdict": "clean", "at": "2026-01-01T00:00:00Z"}\n' + path.read_text())
    with refuses(DataError, "audits.damaged_journal_line", number=1, error="it lacks doc_id, judge"):
        Journal(path)


DAMAGE = {
    "judge": [["x"], 3, None, "\ud800", "", " "],
    "weight": ["x", float("nan"), -5, 0, [1], True, float("inf")],
    "replacement": [["a"], 7, "", "\ud800"],
    "at": ["9999-12-31T23:59:59.999999+00:00", "2026-01-01T00:00:00", "yesterday", 7, None, "\ud800"],
    "verdict": ["maybe", ["wrong"], {}, 1],
    "query_id": [None, [1], "", "\ud800", True, 1.5],
    "doc_id": [None, {}, ""],
}


@pytest.mark.parametrize("field, value", [(field, value) for field, values in DAMAGE.items() for value in values])
def test_each_field_is_checked_when_a_session_resumes_and_removing_the_line_helps(tmp_path, field, value):
    one = session(tmp_path)
    answered = [answer_next(one) for _ in range(3)]
    one.finish()
    path = tmp_path / "judgements.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join([whole[0], json.dumps(json.loads(whole[1]) | {field: value}) + "\n", whole[2]]))
    with pytest.raises(DataError, match=r"judgements.jsonl line 2"):
        session(tmp_path, start=False)
    path.write_text("".join([whole[0], whole[2]]))
    two = session(tmp_path)
    assert two.state()["judged"] == 2
    answer_next(two)
    two.finish()
    assert {answered[0], answered[2]} <= two.learner.seen[-1].keys() or len(two.learner.seen[-1]) == 3


def test_what_the_end_would_refuse_is_refused_before_anything_is_asked(tmp_path):
    one = session(tmp_path)
    answer_next(one, "clean")
    one.finish()
    path = tmp_path / "judgements.jsonl"
    (line,) = path.read_text().splitlines()
    path.write_text(line + "\n" + line.replace("clean", "wrong") + "\n")  # at the same time the other word
    with refuses(DataError, "detection.contradicting_verdicts"):
        session(tmp_path, start=False)
    path.write_bytes(line.encode() + b"\n\xff\n")
    with pytest.raises(DataError, match="line 2: not UTF-8"):
        session(tmp_path, start=False)
    path.write_text(line.replace('"judge": "ann"', '"judge": "bob"').replace('"q0', '"x0') + "\n")
    with refuses(DataError, "audits.journal_of_other_pairs", n_unknown=1):
        session(tmp_path, start=False)


def test_a_full_disk_loses_nothing_and_leaves_no_half_line(tmp_path, monkeypatch):
    one = session(tmp_path)
    first = answer_next(one)
    whole = (tmp_path / "judgements.jsonl").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journals.os, "fsync", full)
        with refuses(StoreError, "audits.cannot_write"):
            answer_next(one, "wrong")
    assert (tmp_path / "judgements.jsonl").read_bytes() == whole
    second = answer_next(one, "wrong")
    assert list(given_judgements([str(tmp_path / "judgements.jsonl")])) == [first, second]


def test_undo_takes_back_and_asks_again(tmp_path):
    one = session(tmp_path)
    first, second = answer_next(one, "wrong"), answer_next(one, "clean")
    assert one.undo(first) is None, "another was answered last"
    assert pair_of(one.undo(second)) == second
    assert pair_of(one.next_pairs(1)[0]) == second
    assert [line["verdict"] for line in lines(tmp_path)] == ["wrong", "clean", None]
    assert list(given_judgements([str(tmp_path / "judgements.jsonl")])) == [first]
    resumed = session(tmp_path)
    assert pair_of(resumed.undo()) == first and resumed.undo() is None
    assert resumed.state()["judged"] == 0


def test_the_same_answer_again_is_one_line_and_another_one_counts(tmp_path):
    one = session(tmp_path)
    pair = answer_next(one, "clean")
    one.answer(pair, "clean")
    assert len(lines(tmp_path)) == 1
    one.answer(pair, "wrong", "o1")
    (said,) = given_judgements([str(tmp_path / "judgements.jsonl")]).values()
    assert (said.verdict, said.replacement, said.weight) == ("wrong", "o1", 120 / 50)
    with refuses(DataError, "audits.pair_not_audited"):
        one.answer(("q9999", "d1"), "clean")


def test_a_replacement_belongs_to_a_wrong_pair(tmp_path):
    answer_next(session(tmp_path), "clean", "o1")
    assert lines(tmp_path)[0]["replacement"] is None


def test_a_skipped_pair_comes_again_before_the_session_ends(tmp_path):
    one = session(tmp_path)
    skipped = pair_of(one.next_pairs(1)[0])
    one.skip(skipped)
    asked = [answer_next(one) for _ in range(len(one.pairs.ids))]
    assert 5 < asked.index(skipped) < 30 and len(set(asked)) == 120
    assert one.next_pairs(1) == []


def test_every_answer_stands_for_as_many_pairs_as_its_chance_says(tmp_path):
    one = session(tmp_path)
    for _ in range(100):
        answer_next(one)
    assert {line["weight"] for line in lines(tmp_path)} == {120 / 50}


def test_a_pair_that_was_chosen_before_counts_as_random_once_it_is_drawn(tmp_path):
    """Sessions of version 0.2 chose pairs; without them the sample would lack the pairs that are hardest to tell."""
    one = session(tmp_path)
    pair = answer_next(one)
    path = tmp_path / "judgements.jsonl"
    path.write_text(json.dumps(lines(tmp_path)[0] | {"draw": "teaching", "weight": None}) + "\n")
    two = session(tmp_path)
    while two.next_pairs(1):
        assert answer_next(two) != pair
    last = {(line["query_id"], line["doc_id"]): line for line in lines(tmp_path)}
    assert len(last) == 120 and len(lines(tmp_path)) == 121
    assert all(judged.weight for judged in given_judgements([str(path)]).values())


def test_it_learns_after_each_batch_from_what_all_judges_say(tmp_path):
    learner = Learner()
    one = session(tmp_path, learner=learner)
    until(lambda: learner.seen == [{}] and not one.state()["learning"])
    for _ in range(BATCH):
        answer_next(one)
    until(lambda: not one.state()["learning"])
    assert [len(seen) for seen in learner.seen] == [0, BATCH]
    assert one.state()["known"]["rate"] == (0.25, 0.1, 0.4)
    other = session(tmp_path, "bob", learner)
    assert answer_next(other, "wrong") in [(line["query_id"], line["doc_id"]) for line in lines(tmp_path)[:BATCH]]
    other.finish()
    assert [said.verdict for said in learner.seen[-1].values()].count("unclear") == 1, "two judges, two opinions"
    assert len(learner.seen[-1]) == BATCH


def test_judges_are_asked_about_the_same_random_pairs(tmp_path):
    asked = []
    for judge in ("ann", "bob"):
        one = session(tmp_path, judge)
        asked.append([answer_next(one, "clean" if place % 3 else "wrong") for place in range(20)])
        one.finish()
    assert asked[0] == asked[1]
    (between,) = one.state()["agreement"]
    assert between["judges"] == ("ann", "bob") and between["pairs"] == 20 and between["kappa"].value == 1


def test_answering_never_waits_for_the_learner(tmp_path):
    class Slow(Learner):
        def learn(self, judged):
            time.sleep(3 if judged else 0)
            return super().learn(judged)

    one = session(tmp_path, learner=Slow())
    until(lambda: not one.state()["learning"])
    began = time.monotonic()
    for _ in range(2 * BATCH):
        answer_next(one)
    assert one.state()["learning"] and time.monotonic() - began < 3
    one.finish()
    assert one.known.sampled == 2 * BATCH


def test_a_learner_that_cannot_learn_says_so_and_the_session_goes_on(tmp_path):
    class Fails(Learner):
        def learn(self, judged):
            raise DataError("all judged pairs are clean")

    one = session(tmp_path, learner=Fails())
    until(lambda: not one.state()["learning"])
    assert "all judged pairs are clean" in one.state()["known"]["advice"]
    answer_next(one)


def test_two_who_answer_at_once_corrupt_nothing(tmp_path):
    one = session(tmp_path)

    def judge():
        while shown := one.next_pairs(1):
            one.answer(pair_of(shown[0]), "clean")

    threads = [Thread(target=judge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(tmp_path)) == 120 == len(given_judgements([str(tmp_path / "judgements.jsonl")]))


def test_times_rise_even_where_the_clock_is_set_back(tmp_path):
    one = Journal(tmp_path / "judgements.jsonl")
    ahead = JournalEntry("q", "d", "clean", "ann", 1.0, None, "2040-01-01T00:00:00+00:00")
    one.append(ahead)
    one.append(replace(ahead, verdict="wrong", at=one.time()))
    (said,) = given_judgements([str(one.path)]).values()
    assert said.verdict == "wrong"


def test_judgements_of_other_pairs_are_refused(tmp_path):
    answer_next(session(tmp_path))
    with refuses(DataError, "audits.journal_of_other_pairs"):
        session(tmp_path, of=pairs(5), start=False)
