"""`noisyir run`: run an experiment and say where its result is."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from noisyir.commands import (
    Engine,
    Json,
    Refresh,
    StoreUrl,
    experiment_names,
    open_store,
    prefect_engine,
    split_settings,
)

if TYPE_CHECKING:
    from noisyir.app.runs import Outcome
    from noisyir.costs.rates import Machine
    from noisyir.engine.plan import Choice
    from noisyir.engine.runtime import Runtime
    from noisyir.engine.store import Store
    from noisyir.pipelines.experiment import Experiment


def _positive(text: str | float) -> float:
    """A number above 0."""
    if not 0 < (value := float(text)) < float("inf"):
        raise ValueError(f"{text} is not a number above 0")
    return value


Tflops: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=_positive,
        metavar="N",
        help="--dry-run: assume that a GPU does N * 10^12 operations a second (100 is a third of an A100's 312)",
    ),
]


def run(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="a name that ships with noisyir, or a .yaml file",
            autocompletion=experiment_names,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="settings to change, such as train.epochs=3 or runtime.threads=2"),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="STAGE", help="stop after this stage")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="STAGE", help="run this stage alone, from artifacts that are there")
    ] = None,
    refresh: Refresh = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what is cached, what would run, and what it costs")
    ] = False,
    gpu_tflops: Tflops = 100.0,
    engine: Engine = "local",
    no_track: Annotated[bool, typer.Option("--no-track", help="do not track and register with MLflow")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Run an experiment.

    example: noisyir run demo train.epochs=3 --to search
    """
    from noisyir import experiments
    from noisyir.costs.rates import Machine
    from noisyir.engine.plan import Choice

    settings, machine = split_settings(overrides)
    exp, runtime = experiments.load(experiment, settings), experiments.load_runtime(machine)
    choice, opened = Choice(to=to, only=only, refresh=tuple(refresh or ())), open_store(store)
    if dry_run:
        _dry_run(exp, choice, opened, Machine(gpu_tflops=gpu_tflops), as_json=as_json)
    else:
        _run(exp, choice, opened, runtime, engine=engine, tracked=not no_track, as_json=as_json)
    return 0


def _run(
    exp: Experiment, choice: Choice, store: Store, runtime: Runtime, *, engine: str, tracked: bool, as_json: bool
) -> None:
    """Run an experiment, and say where its result is."""
    from noisyir.app.console import observer_for, print_outcome
    from noisyir.app.runs import run_experiment
    from noisyir.tracking import open_tracker

    store.check_writable()
    tracker = open_tracker(experiment=exp, home=store.home, enabled=tracked)
    call = run_experiment if engine == "local" else prefect_engine(f"train_{exp.task}").run_experiment
    with observer_for(sys.stderr) as observer:
        outcome = call(exp, choice, store=store, runtime=runtime, tracker=tracker, observer=observer)
    if as_json:
        print(json.dumps(describe(outcome, store), indent=2))
    else:
        print_outcome(outcome, store, exp.published)


def _dry_run(exp: Experiment, choice: Choice, store: Store, machine: Machine, *, as_json: bool) -> None:
    """Say what would run and what it would cost, also where data or weights are not there yet."""
    from noisyir.app.console import print_absences, print_costs
    from noisyir.costs.forecast import lines_of, totals
    from noisyir.costs.table import forecast_json
    from noisyir.engine.plan import forecast
    from noisyir.engine.provenance import without_inputs
    from noisyir.pipelines.readers import pipeline_of

    with without_inputs() as absences:
        states = forecast(pipeline_of(exp), choice, store)
    lines, sizes = lines_of(states, store, exp.expected, machine)
    if as_json:
        absent = {"absent": list(absences), "sizes": sizes and asdict(sizes)}
        print(json.dumps({**forecast_json(lines, totals(lines), machine), **absent}))
        return
    print_costs(exp, lines, sizes, machine)
    print_absences(absences)


def describe(outcome: Outcome, store: Store) -> dict[str, Any]:
    """The run as one JSON object."""
    from noisyir.engine.tables import read_parts

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
        "comparison": read_parts(store.fs, store.parts(comparison)).to_pylist() if comparison else [],
        "report": str(store.folder(outcome.kept["report"]) / "report.html") if "report" in outcome.kept else None,
        **outcome.facts,
    }
