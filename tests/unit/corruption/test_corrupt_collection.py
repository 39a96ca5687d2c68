"""Kinds of noise by which the collection changes: what corrupt writes of it, and what it says in truth."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.corruption.kinds import Corruption
from noisyir.corruption.stages.corrupt import CORRUPT
from tests.refusals import refuses
from tests.world import pairs_world

TRAIN, DEV, OTHERS = 60, 6, 10
REWRITING = ["half_answer", "swapped_entities", "words_left_out"]


def text_of(number):
    return f"the Cat{number}X of Mr Smith{number}X saw {number} birds in {1900 + number % 7} near tree {number}"


def data(pairs_of_document=1, answers=None):
    """Training query n has document n // pairs_of_document; each dev query one of its own, and a judgement beside it.

    Document 0 is judged relevant to the first dev query, 1 to a query without a pair; 2 stands there twice, with
    another id.
    """
    texts = [text_of(n) for n in range(TRAIN + DEV)] + [text_of(2), *(f"other {n}" for n in range(OTHERS - 1))]
    pairs = [(f"q{n}", f"d{n // pairs_of_document}", "s") for n in range(TRAIN)]
    pairs += [(f"q{n}", f"d{n}", "s") for n in range(TRAIN, TRAIN + DEV)]
    return pairs_world(
        "pairs corpus qrels answers",
        [""] * (TRAIN + DEV),
        [(f"title {n}", text) for n, text in enumerate(texts)],
        splits={f"q{n}": "dev" for n in range(TRAIN, TRAIN + DEV)},
        pairs=pairs,
        judged=[(*pair[:2], 1) for pair in [*pairs, (f"q{TRAIN}", "d0"), ("asked", "d1")]],
        answers=answers,
    )


def run(run_stage_on, kind, given, rate=0.5, seed=0, **settings):
    return run_stage_on(CORRUPT, Corruption.parse({"kind": kind, "rate": rate, **settings}), given, seed=seed)


@pytest.mark.parametrize("kind", REWRITING)
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_a_version_of_the_own_document_joins_the_collection_and_the_pair_names_it(run_stage_on, kind, rate):
    given = data(pairs_of_document=3)
    tables = run(run_stage_on, kind, given, rate)
    old, new = given["corpus"].to_pylist(), tables["corpus"].to_pylist()
    assert new[: len(old)] == [{name: row[name] for name in new[0]} for row in old], "the right documents stay"
    assert [row["doc_row"] for row in new] == list(range(len(new)))
    added = {row["doc_id"]: row for row in new[len(old) :]}
    truth = tables["noise_truth"].to_pylist()
    wrong = [(pair, now) for pair, now in zip(given["pairs"].to_pylist(), truth, strict=False) if now["is_noisy"]]
    assert len(wrong) == round(rate * TRAIN) and {now["doc_id"] for _, now in wrong} == set(added)
    by_id = {row["doc_id"]: row for row in old}
    for pair, now in wrong:
        original, version = by_id[pair["doc_id"]], added[now["doc_id"]]
        assert now["kind"] == kind and now["doc_id"].startswith(f"{pair['doc_id']}~{kind}")
        assert version["title"] == original["title"] and version["text"] not in [row["text"] for row in old]
    assert tables["noisy_pairs"].slice(TRAIN).to_pylist() == given["pairs"].slice(TRAIN).to_pylist()
    right = [row for row in truth if not row["is_noisy"]]
    assert {row["kind"] for row in right} <= {"clean"}
    assert len(tables["clean_pairs"]) == len(right) + DEV


@pytest.mark.parametrize("kind", [*REWRITING, "absent"])
def test_the_seed_alone_decides_and_rate_0_writes_no_collection(run_stage_on, kind):
    given = data()
    first, again, other = (run(run_stage_on, kind, given, seed=seed) for seed in (1, 1, 2))
    assert first["corpus"] == again["corpus"] and first["noisy_pairs"] == again["noisy_pairs"] != other["noisy_pairs"]
    nothing = run(run_stage_on, kind, given, rate=0)
    assert "corpus" not in nothing and not any(nothing["noise_truth"]["is_noisy"].to_pylist())
    few = run(run_stage_on, kind, given, rate=0.001)
    for column in ("doc_id", "doc_row", "title", "text"):
        assert few["corpus"][column].to_pylist() == given["corpus"][column].to_pylist()


def test_an_id_in_use_is_not_given_again(run_stage_on):
    given = data()
    ids = given["corpus"]["doc_id"].to_pylist()
    ids[-1] = "d5~half_answer1"
    given["corpus"] = given["corpus"].set_column(0, "doc_id", pa.array(ids))
    tables = run(run_stage_on, "half_answer", given, rate=1)
    assert "d5~half_answer2" in tables["noise_truth"]["doc_id"].to_pylist()
    assert len(set(tables["corpus"]["doc_id"].to_pylist())) == len(tables["corpus"])


def test_a_version_holds_no_answer(run_stage_on):
    answers = {f"q{n}": [f"cat{n}x"] for n in range(30)}
    tables = run(run_stage_on, "half_answer", data(answers=answers), rate=1)
    text = dict(zip(tables["corpus"]["doc_id"].to_pylist(), tables["corpus"]["text"].to_pylist(), strict=True))
    named = dict(zip(*(tables["noise_truth"][name].to_pylist() for name in ("query_id", "doc_id")), strict=True))
    assert all(f"Cat{n}X" not in text[named[f"q{n}"]] for n in range(30))
    assert any(f"Cat{n}X" in text[named[f"q{n}"]] for n in range(30, TRAIN))
    with refuses(DataError, "corruption.rate_too_high", able=30, pairs=60, highest=0.5):
        run(run_stage_on, "half_answer", data(answers=answers), rate=0.6, part="first")


def test_the_right_document_of_a_wrong_pair_leaves_unless_it_is_needed(run_stage_on):
    given = data()
    tables = run(run_stage_on, "absent", given, rate=0.8)
    there = tables["corpus"]["doc_id"].to_pylist()
    texts = tables["corpus"]["text"].to_pylist()
    assert tables["corpus"]["doc_row"].to_pylist() == list(range(len(there)))
    wrong = {row["query_id"]: row for row in tables["noise_truth"].to_pylist() if row["is_noisy"]}
    assert len(wrong) == 48
    for n in range(TRAIN):
        row = wrong.get(f"q{n}")
        if row is None or n in (0, 1):
            assert f"d{n}" in there and (row is None or row["kind"] == "absent_kept")
        else:
            assert text_of(n) not in texts and row["kind"] == "absent", "by whatever id"
        assert row is None or row["doc_id"] in there
    assert {f"d{n}" for n in range(TRAIN, TRAIN + DEV)} <= set(there)
    assert set(tables["clean_pairs"]["doc_id"].to_pylist()) <= set(there)


def test_the_pairs_of_a_document_become_wrong_together(run_stage_on):
    given = data(pairs_of_document=4)
    tables = run(run_stage_on, "absent", given, rate=0.45)
    truth = tables["noise_truth"].to_pylist()
    wrong = np.array([row["is_noisy"] for row in truth]).reshape(-1, 4).sum(axis=1)
    assert wrong.sum() == 27 and sorted(set(wrong.tolist())) == [0, 3, 4] and (wrong == 3).sum() == 1
    kept = [n for n, row in enumerate(truth) if row["kind"] == "absent_kept"]
    assert set(np.flatnonzero(wrong == 3)) <= {n // 4 for n in kept} <= {*np.flatnonzero(wrong == 3), 0, 1}


def test_everything_absent_leaves_nothing_to_name(run_stage_on):
    with refuses(DataError, "corruption.no_wrong_document"):
        run(run_stage_on, "absent", data(), rate=1)


@pytest.mark.parametrize("kind", ["confusable", "vague"])
def test_kinds_that_read_queries_need_them_and_write_no_collection(run_stage_on, kind):
    given = data()
    with refuses(ConfigError, "corruption.no_query_texts", noise=kind):
        run(run_stage_on, kind, given)
    asked = [f"q{n}" for n in range(TRAIN + DEV)]
    queries = {
        "query_id": asked,
        "text": [f"cat{n}x birds" for n in range(len(asked))],
        "split": ["train"] * len(asked),
    }
    tables = run(run_stage_on, kind, given | {"queries": pa.table(queries)})
    assert "corpus" not in tables and sum(tables["noise_truth"]["is_noisy"].to_pylist()) == 30
    for pair, now in zip(given["pairs"].to_pylist(), tables["noise_truth"].to_pylist(), strict=False):
        assert (pair["doc_id"] != now["doc_id"]) == now["is_noisy"] == (now["kind"] == kind)
