"""Progress on a terminal: phases with their results, how far a task is, and a bar for a plan of many steps."""

import re
from io import StringIO

from rich.console import Console
from rich.progress import Progress

from noisyir.app import console
from noisyir.app.console import Lines, Phases, _HowFar, phase_of
from noisyir.base.settings import Params
from noisyir.engine.meta import Contents, Meta
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Stage
from noisyir.evaluation.artifacts import REPORT
from noisyir.methods import experiments
from noisyir.methods.plans.planning import pipeline_of
from tests.flows.screens import plain


def test_each_system_is_scored_in_its_own_phase():
    exp = experiments.load("demo", ["methods=[dpr,npc]"])
    phases = list(dict.fromkeys(phase_of(step) for step in pipeline_of(exp).steps))
    assert [name for name in phases if name in ("data", "BM25", "untrained", "dpr", "npc", "hybrids", "report")] == [
        "data", "BM25", "untrained", "dpr", "npc", "hybrids", "report",
    ]  # fmt: skip
    scored = {step.name: phase_of(step) for step in pipeline_of(exp).steps if step.stage.name == "score"}
    assert scored["score@bm25"] == "BM25" and scored["score@zero_shot"] == "untrained" and scored["score@npc"] == "npc"
    assert scored["score@npc_hybrid"] == "hybrids"


def test_the_time_left_is_known_of_a_task_that_is_heard_of_seldom():
    clock = [0.0]
    bars = Progress(get_time=lambda: clock[0])
    task = bars.add_task("slow", total=10, unit="pairs")
    assert _HowFar().render(bars.tasks[0]).plain == "0 of 10 pairs"
    clock[0] = 100.0
    bars.update(task, completed=2)
    assert _HowFar().render(bars.tasks[0]).plain == "2 of 10 pairs, 6 min 40 s left"


def _built(result: str) -> Meta:
    contents = {"report": Contents(1, "0", None, {})}
    notes = {"result": result} if result else {}
    return Meta("pages", 1, "k", "b", {}, None, {}, contents, 1.0, "2026-01-01T00:00:00+00:00", notes, None, {})


def _steps(count: int, stage: str = "pages") -> Plan:
    plan = Plan(0)
    for number in range(count):
        plan.add(Stage(stage, number, Params, {}, {"report": REPORT}, lambda job: None), Params(), f"dpr:{number}")
    return plan


def test_a_phase_ends_with_its_result_and_one_of_several_results_with_none():
    screen = StringIO()
    with Progress(console=Console(file=screen, force_terminal=True, width=100)) as bars:
        phases = Phases(bars)
        steps = _steps(2).steps
        phases.planned(steps)
        for step, said in zip(steps, ("nDCG@10 0.713", ""), strict=True):
            phases.started(step)
            phases.progress(step, 1, 2, "queries")
            phases.finished(step, _built(said), cached=False)
        assert re.search(r"1/1 dpr +done +\d+\.\d s +nDCG@10 0\.713", plain(screen.getvalue()))
        several = Phases(bars)
        several.planned(steps)
        screen.truncate(0)
        for step in steps:
            several.finished(step, _built("nDCG@10 0.5"), cached=True)
        assert "was there" in screen.getvalue() and "nDCG" not in screen.getvalue()


def test_a_plan_of_many_steps_has_a_bar_for_all_of_them():
    with Progress(console=Console(file=StringIO(), force_terminal=True)) as bars:
        phases, steps = Phases(bars), _steps(101).steps
        phases.planned(steps)
        for number, step in enumerate(steps[:5]):
            phases.finished(step, _built(""), cached=number < 2)
        (whole,) = bars.tasks
        assert (whole.description, whole.completed, whole.total) == ("all", 3, 99)


def test_a_file_gets_a_line_a_stage_when_it_ends_and_one_a_minute_before(monkeypatch):
    clock, written = [0.0], StringIO()
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    lines, (step, _) = Lines(Console(file=written, soft_wrap=True)), _steps(2).steps
    lines.started(step)
    for now in (1.0, 61.0, 62.0):
        clock[0] = now
        lines.progress(step, 1200, 4000, "pairs")
    lines.finished(step, _built("nDCG@10 0.713"), cached=False)
    assert written.getvalue().splitlines() == [
        f"  {step.name:<25}  at work  1,200 of 4,000 pairs",
        f"  {step.name:<25}    1.0 s  nDCG@10 0.713",
    ]
