"""The speed bench: rows that are whole, ratios and verdicts that can be counted by hand, sides that agree."""

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from math import exp, log, sqrt
from pathlib import Path

import pytest

from bench import tables
from bench.speed import command, table
from bench.speed.command import Asked
from bench.speed.command import table as run_table
from bench.speed.row import Line, Row, Work, rows
from bench.speed.rows.demo import watched
from bench.speed.rows.evaluation import Evaluation
from bench.speed.turns import compare, ratio

FASTER = Line("made", "ours", "peer", "a peer", at_least=2.0, unit="texts")


def taken(*seconds: float, items: int = 10) -> list[dict]:
    return [{"seconds": one, "cpu_seconds": one / 2, "items": items} for one in seconds]


@pytest.mark.parametrize(("name", "row"), rows().items(), ids=list(rows()))
def test_a_row_has_the_sides_that_its_lines_name(name: str, row: Row):
    assert row.lines
    for side in row.sides():
        assert callable(getattr(row, side))
    assert set(row.needs) | row.before <= set(row.sides())
    for line in row.lines:
        assert sum(bound is not None for bound in (line.at_least, line.at_most, line.limit)) <= 1


def test_a_ratio_is_the_geometric_mean_of_the_turns_with_students_interval():
    found = ratio([2.0, 8.0], [1.0, 1.0])
    reach = 12.706 * (log(8) - log(2)) / sqrt(2) / sqrt(2)  # t of one degree of freedom; the deviation of two numbers
    assert found.mean == pytest.approx(4.0)
    assert (found.low, found.high) == pytest.approx((4 / exp(reach), 4 * exp(reach)), rel=1e-3)
    assert ratio([3.0], [1.0]).low is None


@pytest.mark.parametrize(
    ("line", "peer", "verdict"),
    [
        (FASTER, (3.0, 3.1, 2.9), "met"),
        (FASTER, (1.0, 1.1, 0.9), "missed"),
        (FASTER, (1.5, 2.6, 2.0), "open"),
        (Line("made", "ours", "peer", "a peer", at_most=0.5), (3.0, 3.1, 2.9), "met"),
        (Line("made", "ours", "peer", "a peer", at_most=0.5), (1.5, 2.6, 2.0), "open"),
        (Line("made", "ours", "peer", "a peer", at_most=0.5), (1.0, 1.1, 0.9), "missed"),
        (Line("made", "ours", "peer", "a peer"), (1.0, 1.1, 0.9), ""),
    ],
)
def test_a_target_within_the_interval_is_open(line: Line, peer: tuple[float, ...], verdict: str):
    assert compare(line, {"ours": taken(1.0, 1.0, 1.0), "peer": taken(*peer)}, cores=2).verdict == verdict


def test_sides_are_compared_by_the_item():
    found = compare(FASTER, {"ours": taken(1.0, items=100), "peer": taken(1.0, items=10)}, cores=2)
    assert found.clock.mean == pytest.approx(10.0) == found.cpu.mean
    assert table.compared(FASTER, found)[2:] == ["100 texts/s", "10 texts/s", "10.00", "10.00", "≥ 2", "met"]


def test_processor_time_is_judged_on_one_core_unless_a_side_waits():
    ours, peer = taken(4.0), [{"seconds": 4.0, "cpu_seconds": 0.9, "items": 10}]
    both = {"ours": peer, "peer": ours}  # equal by the clock, more than twice as fast by processor time
    assert [compare(FASTER, both, cores=cores).verdict for cores in (1, 2)] == ["met", "missed"]
    assert compare(replace(FASTER, waits=True), both, cores=1).verdict == "missed"
    served = {side: [{"seconds": 4.0, "items": 10}] for side in both}  # nobody counted the server's processor time
    assert compare(replace(FASTER, waits=True), served, cores=1).cpu is None


def test_a_row_that_is_run_anew_leaves_the_others_as_they_were(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RECORDS", tmp_path)
    row = type("Made", (Row,), {"lines": (FASTER,)})()
    one, other = ({"lines": [[name, *[""] * 7]], "turns": {"ours": []}} for name in ("one", "other"))
    table.record({"a": row, "b": row}, {"a": one})
    assert tables.read("speed")["table"][2][-1] == "not run: not yet"
    table.record({"a": row, "b": row}, {"b": other})
    assert [line[0] for line in tables.read("speed")["table"]] == ["what", "one", "other"]


def test_two_sides_of_the_evaluation_find_the_same(tmp_path):
    row, work = Evaluation(), Work(tmp_path, tmp_path / "none", 20)
    row.prepare(work)
    assert row.noisyir(work)["mean"] == pytest.approx(row.pytrec_eval(work)["mean"])


def test_a_side_whose_package_is_absent_is_not_run_and_says_what_to_install(capsys, monkeypatch):
    row = rows()["evaluation"]
    assert row.lacking("ranx") is None or "pip install 'noisyir[bench]'" in row.lacking("ranx")
    monkeypatch.setattr(type(row), "needs", {"ranx": ("no_such_package",), "pytrec_eval": ("no_such_package",)})
    assert run_table(["evaluation"], Asked(quick=True)) == 0
    assert capsys.readouterr().out.count("not run: no no_such_package here: pip install 'noisyir[bench]'") == 2


@pytest.mark.parametrize("side", ["peers_openvino", "peers_qint8"])
def test_a_peer_by_openvino_tells_nobody_of_its_use(monkeypatch, tmp_path, side):
    monkeypatch.delitem(sys.modules, "openvino_telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # the first that would import OpenVINO
    with pytest.raises(ImportError, match="sentence_transformers"):
        getattr(rows()["transformer_encoding"], side)(Work(tmp_path, tmp_path / "none", 1))
    with pytest.raises(ImportError):
        import_module("openvino_telemetry")


def test_an_unknown_row_is_refused_with_those_that_there_are():
    asked = [sys.executable, "-m", "bench.speed", "--rows", "minning"]
    ended = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ended.returncode == 1 and ended.stderr.startswith("no row 'minning'") and "mining" in ended.stderr


def test_the_memory_of_a_process_is_that_of_all_below_it():
    child = "held = bytearray(60_000_000); import time; time.sleep(1.5)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", code], text=True) as run:
        assert watched(run) > 60


def test_growth_is_the_slope_of_the_logarithms(monkeypatch, tmp_path, capsys):
    def turns(name, row, sides, work, turns, caller):
        seconds = dict.fromkeys(("seconds", "cpu_seconds"), 3.0 * work.size**1.5)
        return {side: [{**seconds, "items": work.size}] for side in sides}

    monkeypatch.setattr(command, "take_turns", turns)
    monkeypatch.setattr(tables, "RECORDS", tmp_path)
    row = type("Made", (Row,), {"lines": (FASTER,), "size": 1600, "reads_texts": False, "grows": True})
    monkeypatch.setattr(command, "rows", lambda: {"made": row(), "still": type("Still", (row,), {"grows": False})()})
    assert command.growth([], Asked()) == 0
    line = ["made", "100: 3000.00 s", "400: 24000.00 s", "1,600: 192000.00 s", "1.50"]
    assert tables.read("growth")["table"] == [table.GROWTH_HEAD, line]
    assert "| made | 100: 3000.00 s |" in capsys.readouterr().out
