"""`noisyir bench noise`: every denoiser on every kind of noise in one table, with significance."""

import shutil
import sys
from argparse import Namespace
from pathlib import Path

from noisyir import experiments
from noisyir.commands import open_store
from noisyir.config import Suite
from noisyir.console import observer_for, print_forecast, stdout_console
from noisyir.errors import ConfigError, StoreError
from noisyir.parallel import execute_side_by_side
from noisyir.plan import Choice, forecast
from noisyir.reader_pipelines import bench_of
from noisyir.runs import run_plan
from noisyir.stage import Result
from noisyir.tracking import open_tracker


def run(args: Namespace) -> int:
    """Run a suite, from where an earlier run stopped, and copy its table and page out."""
    suite = _suite(args)
    plan, choice, store = bench_of(suite), Choice(refresh=tuple(args.refresh)), open_store(args)
    if args.dry_run:
        print_forecast(forecast(plan, choice, store))
        return 0
    store.check_writable()
    runtime = experiments.load_runtime([text for text in args.overrides if experiments.is_runtime(text)])
    jobs = runtime.cpu_threads if args.jobs is None else args.jobs
    runtime = runtime.model_copy(update={"steps_at_once": jobs})
    tracker = open_tracker(experiment=suite.experiment, home=store.home, enabled=False)
    with observer_for(sys.stderr) as observer:

        def steps() -> dict[str, Result]:
            return execute_side_by_side(plan, choice, store, runtime, observer)

        outcome = run_plan(plan, choice, steps, name=suite.name, settings=suite, store=store, tracker=tracker)
    folder = store.folder(outcome.kept["bench_page"])
    out = stdout_console()
    out.print((folder / "bench.md").read_text(encoding="utf-8"), markup=False)
    if args.out:
        folder = _copied(folder, Path(args.out))
    out.print(f"page        {folder / 'bench.html'}")
    out.print(f"per query   noisyir show {outcome.kept['bench_page'].key[:12]}")
    return 0


def _suite(args: Namespace) -> Suite:
    suite = experiments.load_suite(args.suite, [text for text in args.overrides if not experiments.is_runtime(text)])
    if args.seeds is None:
        return suite
    if args.seeds < 1:
        raise ConfigError("--seeds wants a number of seeds, at least 1")
    return suite.model_copy(update={"seeds": tuple(range(args.seeds))})


def _copied(folder: Path, out: Path) -> Path:
    """Copy the page and its tables to a folder that the user named; files of an earlier bench give way."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            shutil.copyfile(path, out / path.name)
    except OSError as error:
        raise StoreError(f"cannot write to the folder --out {out}: {error}") from error
    return out
