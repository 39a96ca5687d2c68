"""`noisyir run`: run an experiment and say where its result is."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from noisyir import experiments
from noisyir.app.console import observer_for, print_absences, print_costs, print_outcome
from noisyir.app.forecast.lines import lines_of, totals
from noisyir.app.forecast.rates import Machine
from noisyir.app.forecast.table import forecast_json
from noisyir.app.runs import Outcome, run_experiment
from noisyir.commands import open_store, prefect_engine
from noisyir.engine.plan import Choice, forecast
from noisyir.engine.provenance import without_inputs
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.readers import pipeline_of
from noisyir.tracking import open_tracker


def run(args: Namespace) -> int:
    """Run an experiment, or with --dry-run say what would run."""
    exp = experiments.load(args.experiment, [text for text in args.overrides if not experiments.is_runtime(text)])
    runtime = experiments.load_runtime([text for text in args.overrides if experiments.is_runtime(text)])
    choice = Choice(to=args.to, only=args.only, refresh=tuple(args.refresh))
    store = open_store(args)
    if args.dry_run:
        _dry_run(exp, choice, store, Machine(gpu_tflops=args.gpu_tflops), as_json=args.json)
        return 0
    store.check_writable()
    tracker = open_tracker(experiment=exp, home=store.home, enabled=not args.no_track)
    engine = run_experiment if args.engine == "local" else prefect_engine(f"train_{exp.task}").run_experiment
    with observer_for(sys.stderr) as observer:
        outcome = engine(exp, choice, store=store, runtime=runtime, tracker=tracker, observer=observer)
    if args.json:
        print(json.dumps(describe(outcome, store), indent=2))
    else:
        print_outcome(outcome, store, exp.published)
    return 0


def _dry_run(exp: Experiment, choice: Choice, store: Store, machine: Machine, *, as_json: bool) -> None:
    """Say what would run and what it would cost, also where data or weights are not there yet."""
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
