"""Judgements of an earlier audit, of pairs that have moved since."""

import json

import pytest

from noisyir.app.after_audit import FILE, carried_rate, known_from
from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.label_audit import run_audit
from noisyir.app.runs import Execution
from noisyir.base.errors import StoreError
from noisyir.detection.rate import widened
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.registry.tracker import Tracker
from tests.refusals import refuses

JUDGED, WRONG = 40, 6


@pytest.fixture
def audited(tmp_path):
    """`audited(rows)`: the audit of a file with these pairs."""

    def run(rows):
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        store = Store(tmp_path / "store", home=tmp_path)
        return run_audit(experiment_to_audit(str(path)), Execution(store, Runtime(), Tracker()))

    return run


def pair(number):
    document = f"the answer to question {number} is item {number * number}"
    return {"query_id": f"q{number}", "query": f"question {number}", "doc_id": f"d{number}", "document": document}


def judge(folder, rows):
    more = {"judge": "ann", "weight": 1.0, "replacement": None, "at": "2026-01-01T00:00:00+00:00"}
    said = [
        {name: row[name] for name in ("query_id", "doc_id")} | more | {"verdict": "wrong" if place < WRONG else "clean"}
        for place, row in enumerate(rows)
    ]
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in said))


def test_what_moved_widens_the_interval_and_what_is_gone_or_changed_does_not_count(audited, tmp_path):
    rows, folder = [pair(number) for number in range(80)], tmp_path / "judged"
    found = audited(rows)
    found.write(folder)
    assert carried_rate(found, folder) is None, "nobody has judged"
    judge(folder, rows[:JUDGED])
    before = carried_rate(found, folder)
    known = known_from(found, [str(folder / FILE)])
    assert before == pytest.approx((known.rate.low, known.rate.high, JUDGED, 0.0))
    assert before.low < WRONG / JUDGED < before.high and "new since then" not in str(before)

    changed = rows[10] | {"document": "another text"}
    moved = audited([*rows[20:], changed, *(pair(number) for number in range(100, 119))])  # 60 stayed, of 80
    after = carried_rate(moved, folder)
    assert (after.judged, after.new) == (JUDGED - 20, 0.25), "of the 40, q0 to q19 are gone, or have another text"
    assert after.low == pytest.approx(0.0) and 0.25 < after.high < 0.25 + 0.75 * before.high, (
        "none of the judged that stayed is wrong"
    )
    assert str(after).endswith("by 20 judgements; 25.0 % of the pairs are new since then")

    (folder / "audit.parquet").unlink()
    with refuses(StoreError, "app.no_written_audit"):
        carried_rate(moved, folder)


@pytest.mark.parametrize("new", [0.0, 0.25, 1.0])
def test_the_widened_interval_holds_whatever_the_new_pairs_are_and_no_narrower_one_does(new):
    low, high = widened(0.1, 0.3, new)
    rates = [(1 - new) * old + new * unknown for old in (0.1, 0.3) for unknown in (0.0, 1.0)]
    assert (low, high) == (min(rates), max(rates))
