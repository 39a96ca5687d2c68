"""`noisyir run`: run an experiment, and say on the terminal how it ended and what to do next."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyir.commands import (
    Engine,
    Json,
    Refresh,
    StoreUrl,
    argument,
    experiment_names,
    flag,
    open_store,
    option,
    prefect_engine,
    print_json,
    split_settings,
)

if TYPE_CHECKING:
    from noisyir.app.runs import Outcome
    from noisyir.engine.plan import Choice
    from noisyir.engine.store import Store
    from noisyir.pipelines.experiment import Experiment


from collections.abc import Sequence

import pyarrow as pa
from rich.console import Console
from rich.markup import escape

from noisyir.app.console import results_table, stdout_console
from noisyir.app.own_data import doubts_of, ingest_facts
from noisyir.app.runs import Outcome
from noisyir.engine.store import Store
from noisyir.pipelines.experiment import Experiment
from noisyir.report.cells import NONE
from noisyir.report.detection import detection_rows, flag_warnings
from noisyir.report.settings import PublishedParams
from noisyir.report.summary import published_rows, summary_rows, trial_rows

_OVERRIDES = "settings to change, such as train.epochs=3 or runtime.threads=2"
_EXPERIMENT = "a name that ships with noisyir, or a .yaml file"


def run(
    experiment: Annotated[str, argument("EXPERIMENT", _EXPERIMENT, experiment_names)],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", _OVERRIDES)] = None,
    to: Annotated[str | None, option("STAGE", "stop after this stage")] = None,
    only: Annotated[str | None, option("STAGE", "run this stage alone, from artifacts that are there")] = None,
    refresh: Refresh = None,
    dry_run: Annotated[bool, flag("--dry-run", "show what is cached, what would run, and how long that took")] = False,
    why: Annotated[bool, flag("--why", "--dry-run: say of each step that would run what is new about it")] = False,
    engine: Engine = "local",
    no_track: Annotated[bool, flag("--no-track", "do not track and register with MLflow")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Run an experiment.

    example: noisyir run demo train.epochs=3 --to search
    """
    from noisyir import experiments
    from noisyir.app.console import observer_for
    from noisyir.app.dry_run import print_chosen
    from noisyir.app.runs import Execution, run_experiment
    from noisyir.engine.plan import Choice
    from noisyir.tracking import open_tracker

    settings, machine = split_settings(overrides)
    exp, runtime = experiments.load(experiment, settings), experiments.load_runtime(machine)
    choice, opened = Choice(to=to, only=only, refresh=tuple(refresh or ())), open_store(store)
    if dry_run:
        _dry_run(exp, choice, opened, why=why, as_json=as_json)
        return 0
    if why:
        raise typer.BadParameter("--why goes with --dry-run")
    opened.check_writable()
    print_chosen(exp, sys.stderr)
    tracker = open_tracker(experiment=exp, home=opened.home, enabled=not no_track)
    call = run_experiment if engine == "local" else prefect_engine(f"train_{exp.task}").run_experiment
    with observer_for(sys.stderr) as observer:
        outcome = call(exp, choice, Execution(store=opened, runtime=runtime, tracker=tracker, observer=observer))
    if as_json:
        return print_json(describe(outcome, opened))
    print_outcome(outcome, opened, exp)
    return 0


def _dry_run(exp: Experiment, choice: Choice, store: Store, *, why: bool, as_json: bool) -> None:
    """Say what would run and how long that took before, also where data or weights are not there yet."""
    from noisyir.app.dry_run import (
        changes,
        dry_run_json,
        estimates,
        print_absences,
        print_changes,
        print_chosen,
        print_dry_run,
        print_missing,
        steps_without_key,
    )
    from noisyir.app.fetching import missing_inputs
    from noisyir.engine.plan import forecast
    from noisyir.engine.provenance import without_inputs
    from noisyir.pipelines.readers import pipeline_of

    with without_inputs() as absences:
        states = forecast(pipeline_of(exp), choice, store)
    new = changes(states, store, exp.name) if why else None
    found, missing = estimates(states, store, exp.name), missing_inputs(exp, list(absences))
    if as_json:
        more = {"absent": list(absences), "to_fetch": [asdict(one) for one in missing], "chosen": exp.chosen}
        why_new = {} if new is None else {"why": new}
        print_json({**dry_run_json(states, found, steps_without_key(states)), **more, **why_new})
        return
    print_dry_run(exp, states, found)
    print_chosen(exp, sys.stdout)
    print_absences(absences)
    print_missing(missing)
    if new is not None:
        print_changes(new)


def describe(outcome: Outcome, store: Store) -> dict[str, Any]:
    """The run as one JSON object."""
    comparison = outcome.kept.get("comparison")
    return {
        "experiment": outcome.experiment,
        "run": outcome.executed,
        "cached": outcome.cached,
        "steps": [
            {
                "name": name,
                "stage": r.meta.stage,
                "key": r.meta.key,
                "build": r.meta.build,
                "cached": r.cached,
                "seconds": r.meta.seconds,
                "rows": {k: v.rows for k, v in r.meta.artifacts.items()},
            }
            for name, r in outcome.results.items()
        ],
        "comparison": store.builds.table(comparison).to_pylist() if comparison else [],
        "report": str(store.builds.folder(outcome.kept["report"]) / "report.html")
        if "report" in outcome.kept
        else None,
        **outcome.facts,
    }


def print_outcome(outcome: Outcome, store: Store, exp: Experiment) -> None:
    """The end of a run: result table, what to doubt of it, where things are, and what to type next."""
    console = stdout_console()
    console.print(f"\n{outcome.executed} run, {outcome.cached} cached")
    _print_tables(console, outcome, store, exp.published)
    for doubt in doubts_of(outcome, store, exp.kept):
        console.print(f"\n[bold red]WARNING[/]     {escape(doubt)}")
    console.print()
    if held_out := ingest_facts(outcome).get("held_out"):
        console.print(f"{'held out':<11} {held_out}", markup=False)
    for page, artifact in {"report": "report", "audit": "audit_files"}.items():
        if artifact in outcome.kept:
            console.print(f"{page:<11} {store.builds.folder(outcome.kept[artifact]) / f'{page}.html'}")
    for name, value in outcome.facts.items():
        console.print(f"{name:<11} {value}")
    if "model" in outcome.kept:
        console.print(f"\nnext        noisyir search {outcome.experiment} 'your question'")
        console.print(f"            noisyir export {outcome.experiment} --to my-model")
        console.print(f"            noisyir trace {outcome.experiment}")


def _print_tables(console: Console, outcome: Outcome, store: Store, published: Sequence[PublishedParams]) -> None:
    """The results, how well wrong pairs were found, with warnings, and what was tried before a model was chosen."""
    if "comparison" in outcome.kept:
        console.print()
        comparison = _kept(store, outcome, "comparison")
        console.print(results_table(summary_rows(comparison)))
        if rows := published_rows(comparison, published):
            console.print("\npublished beside measured")
            console.print(results_table(rows))
    if "detection" in outcome.kept:
        detection = _kept(store, outcome, "detection")
        headings, *rows = detection_rows(detection)
        if any(cell != NONE for row in rows for cell in row[2:]):  # of data that nobody knows the truth of, all are
            console.print("\nwrong pairs found")
            console.print(results_table([headings, *rows]))
        for warning in flag_warnings(detection):
            console.print(f"\nwarning     {warning}", markup=False)
    if "trials" in outcome.kept:
        console.print()
        console.print(results_table(trial_rows(_kept(store, outcome, "trials"))))


def _kept(store: Store, outcome: Outcome, name: str) -> pa.Table:
    return store.builds.table(outcome.kept[name])
