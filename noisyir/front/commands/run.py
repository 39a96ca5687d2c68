"""`noisyir run`: run an experiment and report the location of its result."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyir.front.commands import (
    Engine,
    Json,
    Refresh,
    StoreUrl,
    Verbose,
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
    from noisyir.methods.plans.experiment import Experiment


_OVERRIDES = "settings to change, such as train.epochs=3 or runtime.threads=2"
_EXPERIMENT = "a name that ships with noisyir, or a .yaml file"


def run(
    experiment: Annotated[str, argument("EXPERIMENT", _EXPERIMENT, experiment_names)],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", _OVERRIDES)] = None,
    to: Annotated[str | None, option("STAGE", "stop after this stage")] = None,
    only: Annotated[str | None, option("STAGE", "run this stage alone, from artifacts that are there")] = None,
    refresh: Refresh = None,
    dry_run: Annotated[bool, flag("--dry-run", "show the steps: cached, or to run, and their cost")] = False,
    why: Annotated[bool, flag("--why", "--dry-run: name the change behind each step that would run")] = False,
    engine: Engine = "local",
    no_track: Annotated[bool, flag("--no-track", "do not track and register with MLflow")] = False,
    force: Annotated[
        bool, flag("--force", "register the model, even if it is no better than without training")
    ] = False,
    verbose: Verbose = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Run an experiment.

    example: noisyir run demo train.epochs=3 --to search
    """
    from noisyir.methods import experiments

    settings, machine = split_settings([*(overrides or ()), *["register_if=always"] * force])
    opened = open_store(store)  # first: omitted settings depend on data that may be in the store
    exp, runtime = experiments.load(experiment, settings), experiments.load_runtime(machine)
    from noisyir.app import runs  # slow: a mistyped name needs none of these
    from noisyir.app.console import observer_for
    from noisyir.app.dry_run import print_chosen
    from noisyir.engine.plan import Choice
    from noisyir.methods.plans.planning import pipeline_of
    from noisyir.registry import open_tracker

    choice = Choice(to=to, only=only, refresh=tuple(refresh or ()))
    if dry_run:
        return _dry_run(exp, choice, opened, why=why, as_json=as_json)
    if why:
        raise typer.BadParameter("--why goes with --dry-run")
    opened.check_writable()
    print_chosen(exp, sys.stderr)
    tracker = open_tracker(experiment=exp, home=opened.home, enabled=not no_track)
    tracker.tag("run_as", experiment)
    with observer_for(sys.stderr, verbose=verbose) as observer:
        execution = runs.Execution(store=opened, runtime=runtime, tracker=tracker, observer=observer)
        if engine == "local":
            outcome = runs.run(pipeline_of(exp), choice, execution, name=exp.name, settings=exp)
        else:
            outcome = prefect_engine(f"train_{exp.task.kind}").run_experiment(exp, choice, execution)
    return print_json(describe(outcome, opened)) if as_json else _report(outcome, opened, exp, verbose=verbose)


def _report(outcome: Outcome, store: Store, exp: Experiment, *, verbose: bool) -> int:
    from noisyir.app.outcome import print_outcome

    with store.locks.in_use():  # tables are read, which gc would otherwise delete meanwhile
        print_outcome(outcome, store, exp, verbose=verbose)
    return 0


def _dry_run(exp: Experiment, choice: Choice, store: Store, *, why: bool, as_json: bool) -> int:
    """Print the steps to run and their earlier durations, even if data or weights are still missing."""
    from noisyir.app import dry_run as shown
    from noisyir.app.fetching import missing_inputs
    from noisyir.engine.plan import forecast
    from noisyir.engine.provenance import without_inputs
    from noisyir.methods.plans.planning import pipeline_of

    with without_inputs() as absences:
        states = forecast(pipeline_of(exp), choice, store)
    new = shown.changes(states, store, exp.name) if why else None
    found, missing = shown.estimates(states, store, exp.name), missing_inputs(exp, list(absences))
    rehearsed, sizes = shown.rehearsals(states, store), shown.sizes_of_states(states, store)
    if as_json:
        to_fetch = [{"setting": setting, "place": place} for place, setting in missing.items()]
        more = {"absent": list(absences), "to_fetch": to_fetch, "chosen": exp.chosen, "to_keep": sizes}
        more["rehearsals"] = [asdict(one) for one in rehearsed]
        more |= {} if new is None else {"why": new}
        return print_json({**shown.dry_run_json(states, found, shown.steps_without_key(states)), **more})
    shown.print_dry_run(states, found, exp.claims)
    shown.print_found("one step", (line for one in rehearsed for line in one.lines()))
    shown.print_found("to keep", (f"{name}: {said}" for name, said in sizes.items()))
    shown.print_chosen(exp, sys.stdout)
    shown.print_found("not there", absences)
    shown.print_found("to fetch", (f"{place} ({name}): noisyir fetch {place}" for place, name in missing.items()))
    if new is not None:
        shown.print_changes(new)
    return 0


def describe(outcome: Outcome, store: Store) -> dict[str, Any]:
    """Return the run as one JSON object."""
    comparison = outcome.kept.get("comparison")
    return {
        "experiment": outcome.experiment,
        "run": outcome.executed,
        "cached": outcome.cached,
        "steps": [
            {"name": name, "cached": r.cached, "rows": {k: v.rows for k, v in r.meta.artifacts.items()}}
            | {of: getattr(r.meta, of) for of in ("stage", "key", "build", "seconds")}
            for name, r in outcome.results.items()
        ],
        "comparison": store.builds.table(comparison).to_pylist() if comparison else [],
        "report": str(store.builds.folder(outcome.kept["report"]) / "report.html")
        if "report" in outcome.kept
        else None,
        **outcome.facts,
    }
