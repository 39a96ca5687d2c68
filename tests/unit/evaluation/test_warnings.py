"""Flags that disagree grossly with the estimated rate, and what was tried before a choice, in words and rows."""

import pyarrow as pa
import pytest

from noisyir.evaluation.artifacts import DETECTION, TRIALS
from noisyir.evaluation.pages.detection import detection_rows, flag_warnings
from noisyir.evaluation.pages.summary import told_trials, trial_rows


def detection(**flagged):
    """The last flags of each system, and the detectors' estimate: 20 % [18, 22]."""
    rate = {"rate": 0.2, "rate_low": 0.18, "rate_high": 0.22} if "detectors" in flagged else {}
    rows = [("detectors", 2, name, value) for name, value in rate.items()]
    for system, share in flagged.items():
        rows += [(system, 1, "flagged", 0.5), (system, 2, "flagged", share)] if system == "npc" else []
        rows += [(system, 2, "flagged", share)] if system != "npc" else []
    return pa.Table.from_pylist(
        [dict(zip(DETECTION.columns, row, strict=True)) for row in rows], schema=DETECTION.schema
    )


@pytest.mark.parametrize(
    ("flagged", "systems"),
    [
        ({"detectors": 0.2, "npc": 0.25}, []),
        ({"detectors": 0.2, "npc": 0.44}, []),
        ({"detectors": 0.2, "npc": 0.873}, ["npc"]),
        ({"detectors": 0.2, "npc": 0.03}, ["npc"]),
        ({"detectors": 0.5, "npc": 0.2}, ["detectors"]),
        ({"detectors": 0.0, "npc": 0.2}, []),
        ({"npc": 0.57}, []),
        ({"npc": 0.873}, ["npc"]),
    ],
)
def test_gross_disagreement_is_told_and_nothing_else(flagged, systems):
    said = flag_warnings(detection(**flagged))
    assert [sentence.partition(" ")[0] for sentence in said] == systems


def test_the_warning_has_the_numbers_and_what_to_do():
    (said,) = flag_warnings(detection(detectors=0.2, npc=0.873))
    assert said.startswith(
        "npc flagged 87.3 % of the pairs in the end, and "
        "detectors estimate others (20.0 %; all made-up pairs 18.0 % to 22.0 %)"
    )
    assert "noisyir audit --sample" in said and "methods=[auto]" in said
    assert "the rate was not estimated" in flag_warnings(detection(npc=0.9))[0]


def test_where_nobody_flagged_nothing_is_said():
    assert flag_warnings(DETECTION.schema.empty_table()) == []


def test_a_table_has_no_empty_rows_and_columns():
    assert detection_rows(DETECTION.schema.empty_table()) == [] == detection_rows(detection(npc=0.9))
    rows = [
        ["detector", "epoch", "estimated share wrong"],
        ["detectors", "2", "20.0 %; all made-up pairs 18.0 % to 22.0 %"],
    ]
    assert detection_rows(detection(detectors=0.2, npc=0.2)) == rows


def trials(difference, chosen):
    plain = {"method": "dpr", "seeds": 3, "queries": 1200, "mean": 0.4, "chosen": chosen == "dpr"}
    tested = {"difference": difference, "low": difference - 0.01, "high": difference + 0.01, "p_value": 0.001}
    other = {**plain, "method": "reweight", **tested, "p_holm": 0.0002, "chosen": chosen == "reweight"}
    return pa.Table.from_pylist([plain, other], schema=TRIALS.schema)


def test_what_was_tried_is_told_with_the_choice():
    better = list(told_trials(trials(0.03, "reweight")))
    assert better[0] == "Tried on 1,200 held-out queries, 3 seeds, nDCG@10: dpr 0.400, reweight 0.400."
    assert better[1] == "Chosen: reweight, better than plain by 0.030 [0.020, 0.040]."
    assert list(told_trials(trials(0.001, "dpr")))[1] == "Chosen: dpr, for nothing was better by the test."
    rows = trial_rows(trials(-0.03, "dpr"))
    assert rows[1] == ["dpr", "0.400", "–", "–", "yes"]  # noqa: RUF001
    assert rows[2] == [
        "reweight",
        "0.400",
        "\N{MINUS SIGN}0.030 [\N{MINUS SIGN}0.040, \N{MINUS SIGN}0.020]",
        "<0.001",
        "",
    ]
