"""Random files of verdicts: what was not judged stays as it was, and no more changes than the audit flags."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from noisyir.audits.apply import changed, decide
from noisyir.audits.by_hand import as_the_machine_says, judged_by_hand
from noisyir.audits.columns import AUDIT, FLAGGED
from noisyir.detection.judgements import Judgements, Pair, given_judgements, read_judgements

QUERIES, DOCUMENTS = 6, 5
WORDS = st.sampled_from(["wrong", "clean", "unclear", "right", "unsure", "", " Wrong "])
LIMITS = {"threshold": 0.5, "confidence": 0.95}


@st.composite
def audits(draw: st.DrawFn) -> pa.Table:
    """Pairs of a few queries that the machine judged, with replacements that may be documents of theirs already."""
    ids = draw(
        st.lists(st.tuples(st.integers(0, QUERIES), st.integers(0, DOCUMENTS)), unique=True, min_size=1, max_size=40)
    )
    chances = draw(st.lists(st.floats(0, 1, width=32), min_size=len(ids), max_size=len(ids)))
    border = draw(st.sampled_from([0.2, 0.5, 0.8]))
    replacements = draw(st.lists(st.none() | st.integers(0, DOCUMENTS + 3), min_size=len(ids), max_size=len(ids)))
    return pa.table(
        {
            "query_id": [f"q{query}" for query, _ in ids],
            "doc_id": [f"d{doc}" for _, doc in ids],
            "score": pa.array([10 * (1 - p) for p in chances], pa.float32()),
            "verdict": pa.array(["suspect" if p < border else None for p in chances], pa.string()),
            "p_clean": pa.array(chances, pa.float32()),
            "replacement": pa.array([None if doc is None else f"d{doc}" for doc in replacements], pa.string()),
            "rests_on": ["random"] * len(ids),
            "by_hand": np.zeros(len(ids), bool),
        }
    )


@st.composite
def files(draw: st.DrawFn, *, weights: bool = False) -> tuple[pa.Table, list[list[dict[str, Any]]]]:
    """An audit, and files of verdicts on some of its pairs, by several judges who may think again."""
    pairs = draw(audits())
    rows = [
        {
            "query_id": pairs["query_id"][number].as_py(),
            "doc_id": pairs["doc_id"][number].as_py(),
            "verdict": draw(WORDS),
            "judge": draw(st.sampled_from(["", "ann", "bob", "eve"])),
            "at": at,  # all different, so that a last word can be told
            "replacement": draw(st.none() | st.sampled_from(["d1", "d7", "d9"])),
            **({"weight": draw(st.none() | st.floats(0.5, 50))} if weights else {}),
        }
        for at, number in enumerate(draw(st.lists(st.integers(0, pairs.num_rows - 1), min_size=1, max_size=40)))
    ]
    rows[0]["verdict"] = "wrong"  # a file without any verdict is refused
    cut = draw(st.integers(1, len(rows)))
    with_verdict = [part for part in (rows[:cut], rows[cut:]) if any(row["verdict"].strip() for row in part)]
    return pairs, with_verdict


def read(parts: list[list[dict[str, Any]]], pairs: pa.Table, folder) -> Judgements:
    paths = []
    for number, rows in enumerate(parts):
        paths.append(str(folder / f"{number}.jsonl"))
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert given_judgements(paths) == read_judgements(paths, pairs)
    return read_judgements(paths, pairs)


def finished(pairs: pa.Table) -> pa.Table:
    """The table as the audit writes it, as far as applying it looks."""
    rows = [{"reason": "Why.", **row} for row in pairs.to_pylist()]
    return pa.Table.from_pylist([{name: row.get(name) for name in AUDIT.columns} for row in rows])


def by_pair(table: pa.Table) -> dict[Pair, dict[str, Any]]:
    return {(row["query_id"], row["doc_id"]): row for row in table.to_pylist()}


@given(drawn=files(), drop=st.booleans())
def test_no_verdict_changes_a_pair_that_was_not_judged(tmp_path_factory, drawn, drop):
    """Neither verdict nor chance nor fate, whatever the order of verdicts, judges and second thoughts."""
    pairs, parts = drawn
    judgements = read(parts, pairs, tmp_path_factory.mktemp("said"))
    alone, judged = as_the_machine_says(pairs), judged_by_hand(pairs, judgements, **LIMITS)[0]
    before, after = by_pair(alone), by_pair(judged)
    fates = [decide(finished(table), drop=drop) for table in (alone, judged)]
    for pair in before.keys() - {pair for pair, said in judgements.items() if said.verdict != "unclear"}:
        assert after[pair] | {"judged": None} == before[pair]
        assert fates[1][pair] == fates[0][pair]
    for pair, said in judgements.items():
        if said.verdict != "unclear":
            assert (after[pair]["verdict"], after[pair]["p_clean"]) == (said.verdict, float(said.verdict == "clean"))
            assert (fates[1][pair].action == "keep") == (said.verdict == "clean")


@given(drawn=files(weights=True), drop=st.booleans())
def test_no_more_is_changed_than_the_audit_calls_wrong(tmp_path_factory, drawn, drop):
    """With random samples among the verdicts as without; and pairs called clean keep at least half of their weight."""
    pairs, parts = drawn
    judgements = read(parts, pairs, tmp_path_factory.mktemp("said"))
    table, found = judged_by_hand(pairs, judgements, **LIMITS)
    audit = finished(table)
    wrong = {pair for pair, row in by_pair(audit).items() if row["verdict"] in FLAGGED}
    fates = decide(audit, drop=drop)
    assert {pair for pair, fate in fates.items() if fate.action != "keep"} <= wrong
    assert changed(audit, drop=drop) <= len(wrong) == found.flagged
    assert all(0 <= fate.weight <= 1 for fate in fates.values())
    assert all(fate.weight >= 0.5 for pair, fate in fates.items() if pair not in wrong)
    kept = [(pair[0], fate.new_doc_id or pair[1]) for pair, fate in fates.items() if fate.action != "drop"]
    assert len(kept) == len(set(kept)), "no query is given a document twice"


@given(drawn=files())
def test_the_same_verdicts_in_another_order_are_the_same_audit(tmp_path_factory, drawn):
    pairs, parts = drawn
    backwards = [list(reversed(rows)) for rows in reversed(parts)]
    one, other = (read(some, pairs, tmp_path_factory.mktemp("said")) for some in (parts, backwards))
    assert one == other
