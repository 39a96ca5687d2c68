"""`noisyir bench noise`: every denoiser on every kind of noise in one table, with significance."""

import shutil
import sys
from argparse import Namespace
from pathlib import Path

from noisyir import experiments
from noisyir.app.console import observer_for, print_forecast, stdout_console
from noisyir.app.runs import Outcome, run_plan
from noisyir.commands import open_store, prefect_engine
from noisyir.engine.build_stage import Result
from noisyir.engine.parallel import at_once, execute_side_by_side
from noisyir.engine.plan import Choice, forecast
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.errors import StoreError
from noisyir.pipelines.readers import bench_of
from noisyir.pipelines.suite import Suite
from noisyir.tracking import open_tracker
from noisyir.tracking.tracker import Tracker


def run(args: Namespace) -> int:
    """Run a suite, from where an earlier run stopped, and copy its table and page out."""
    suite = _suite(args)
    choice, store = Choice(refresh=tuple(args.refresh)), open_store(args)
    if args.dry_run:
        print_forecast(forecast(bench_of(suite), choice, store))
        return 0
    store.check_writable()
    runtime = experiments.load_runtime([text for text in args.overrides if experiments.is_runtime(text)])
    runtime = at_once(runtime, args.jobs)
    engine = _here if args.engine == "local" else prefect_engine("bench_noise").run_suite
    tracker = open_tracker(experiment=suite.experiment, home=store.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        outcome = engine(suite, choice, store=store, runtime=runtime, tracker=tracker, observer=observer)
    folder = store.folder(outcome.kept["bench_page"])
    out = stdout_console()
    out.print((folder / "bench.md").read_text(encoding="utf-8"), markup=False)
    if args.out:
        folder = _copied(folder, Path(args.out))
    out.print(f"page        {folder / 'bench.html'}")
    out.print(f"per query   noisyir show {outcome.kept['bench_page'].key[:12]}")
    return 0


def _here(
    suite: Suite, choice: Choice, *, store: Store, runtime: Runtime, tracker: Tracker, observer: Observer
) -> Outcome:
    plan = bench_of(suite)

    def steps() -> dict[str, Result]:
        return execute_side_by_side(plan, choice, store, runtime, observer)

    return run_plan(plan, choice, steps, name=suite.name, settings=suite, store=store, tracker=tracker)


def _suite(args: Namespace) -> Suite:
    suite = experiments.load_suite(args.suite, [text for text in args.overrides if not experiments.is_runtime(text)])
    return experiments.with_seeds(suite, args.seeds)


def _copied(folder: Path, out: Path) -> Path:
    """Copy the page and its tables to a folder that the user named; files of an earlier bench give way."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            shutil.copyfile(path, out / path.name)
    except OSError as error:
        raise StoreError(f"cannot write to the folder --out {out}: {error}") from error
    return out
