"""`repair`: which flagged pairs get their replacement, and what becomes of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.errors import DataError
from noisyir.data.artifacts import NOISY_PAIRS
from noisyir.detection.settings import RepairParams
from noisyir.detection.stages.detect import REPAIR, relabelled
from noisyir.training.artifacts import NOISE_FLAGS
from tests.world import table


def flag(query, doc, score, clean, replacement=None, *, epoch=1):
    return (query, doc, epoch, score, 1.0 if clean else 0.0, clean, replacement)


def pairs_of(flags):
    return table(NOISY_PAIRS, [(row[0], row[1], "train", None) for row in flags])


@pytest.fixture
def repair(run_stage_on):
    """`repair(flags, relabel)`: the stage's outputs; the pairs are those flagged, unless others are given."""

    def run(flags, relabel, pairs=None):
        given = {"pairs": pairs_of(flags) if pairs is None else pairs, "flags": table(NOISE_FLAGS, flags)}
        return run_stage_on(REPAIR, RepairParams(relabel=relabel), given)

    return run


FLAGGED = [
    flag("q0", "d0", 1.0, True, "d9"),
    flag("q1", "d1", 7.0, False, "d5"),
    flag("q2", "d2", 5.0, False, "d6"),
    flag("q3", "d3", 9.0, False, "d7"),
    flag("q4", "d4", 6.0, False, "d8"),
]


@pytest.mark.parametrize(
    ("share", "relabelled"),
    [
        (0.0, {}),
        (0.25, {"q3": "d7"}),
        (0.5, {"q3": "d7", "q1": "d5"}),
        (1.0, {"q3": "d7", "q1": "d5", "q4": "d8", "q2": "d6"}),
    ],
)
def test_the_flagged_of_highest_score_get_their_replacement_and_the_others_stay_flagged(repair, share, relabelled):
    out = repair(FLAGGED, share)
    pairs, flags = out["repaired_pairs"].to_pylist(), out["repaired_flags"].to_pylist()
    assert [row["query_id"] for row in pairs] == [f"q{n}" for n in range(5)]
    for row, flags_row, (query, doc, _, score, p_clean, is_clean, _) in zip(pairs, flags, FLAGGED, strict=True):
        action = "keep" if is_clean else "relabel" if query in relabelled else "flag"
        assert (row["action"], row["doc_id"]) == (action, relabelled.get(query, doc))
        assert (flags_row["query_id"], flags_row["doc_id"]) == (query, row["doc_id"])
        assert flags_row["is_clean"] == (action != "flag") and flags_row["score"] == score
        assert flags_row["p_clean"] == (1.0 if action == "relabel" else p_clean)
        assert flags_row["replacement"] is None and flags_row["epoch"] == 0


def test_a_pair_without_replacement_stays_flagged_and_its_turn_passes_to_nobody(repair):
    flags = [flag("q1", "d1", 9.0, False, None), flag("q2", "d2", 8.0, False, "d5"), flag("q3", "d3", 7.0, False, "d6")]
    actions = repair(flags, 2 / 3)["repaired_pairs"]["action"].to_pylist()
    assert actions == ["flag", "relabel", "flag"]


def test_no_query_gets_a_pair_that_it_has(repair):
    flags = [
        flag("q1", "right", 1.0, True),
        flag("q1", "wrong", 9.0, False, "right"),  # has it
        flag("q2", "one", 9.0, False, "best"),
        flag("q2", "two", 8.0, False, "best"),  # would have it twice
        flag("q3", "a", 9.0, False, "b"),
        flag("q3", "b", 8.0, False, "a"),  # each is the other's, and both are called wrong
        flag("q4", "x", 7.0, False, "best"),  # another query may have the same document
    ]
    rows = repair(flags, 1.0)["repaired_pairs"].to_pylist()
    found = [(row["action"], row["doc_id"]) for row in rows]
    assert found[:2] == [("keep", "right"), ("flag", "wrong")]
    assert sorted(found[2:4]) == [("flag", "two"), ("relabel", "best")]
    assert found[4:] == [("flag", "a"), ("flag", "b"), ("relabel", "best")]


def test_the_last_epochs_flags_of_the_training_pairs_count(repair, store):
    flags = [flag("q1", "d1", 9.0, True, epoch=1), flag("q1", "d1", 5.0, False, "d2", epoch=2)]
    pairs = table(NOISY_PAIRS, [("q1", "d1", "train", "s"), ("q2", "d2", "dev", "s")])
    out = repair(flags, 1.0, pairs)
    assert out["repaired_pairs"].to_pylist() == [
        {"query_id": "q1", "doc_id": "d2", "split": "train", "action": "relabel"}
    ]
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "repair"]
    assert meta.notes["repair"] == {"relabelled": 1, "flagged": 0}


def test_five_clean_pairs_stay_as_they_are(repair):
    flags = [flag(f"q{n}", "d0", 0.0, True) for n in range(5)]
    out = repair(flags, 0.5)
    assert out["repaired_pairs"]["action"].to_pylist() == ["keep"] * 5
    assert out["repaired_flags"]["is_clean"].to_pylist() == [True] * 5


def test_flags_of_other_pairs_are_refused(repair):
    pairs = pairs_of([*FLAGGED, flag("q9", "d9", 0.0, True)])
    with pytest.raises(DataError, match=r"1 of 6 training pairs have no flag, for example .*'q9'"):
        repair(FLAGGED, 0.5, pairs)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 6), st.floats(-9, 9), st.booleans(), st.integers(0, 6) | st.none()),
        min_size=1,
        max_size=30,
        unique_by=lambda row: row[:2],
    ),
    st.floats(0, 1),
)
def test_whatever_is_flagged_no_pair_arises_twice_and_only_flagged_ones_change(rows, share):
    judged = table(NOISE_FLAGS, [flag(f"q{q}", f"d{d}", score, clean, None if r is None else f"d{r}")
                                 for q, d, score, clean, r in rows])  # fmt: skip
    chosen = relabelled(judged, share)
    flagged = [not clean for *_, clean, _ in rows]
    assert chosen.sum() <= round(share * sum(flagged)) and not chosen[[not is_flagged for is_flagged in flagged]].any()
    after = [(q, r if take else d) for (q, d, _, _, r), take in zip(rows, chosen, strict=True)]
    assert len(set(after)) == len(after) and all(doc is not None for _, doc in after)
