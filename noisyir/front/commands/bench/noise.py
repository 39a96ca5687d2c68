"""`noisyir bench noise`: every denoiser on every kind of noise in one table, with significance."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from noisyir.base.errors import StoreError
from noisyir.front.commands import (
    Engine,
    Refresh,
    StoreUrl,
    argument,
    flag,
    open_store,
    option,
    prefect_engine,
    split_settings,
    suite_names,
)

if TYPE_CHECKING:
    from noisyir.app.runs import Execution, Outcome
    from noisyir.engine.stage import Observer
    from noisyir.engine.store import Store
    from noisyir.methods.plans.suite import Suite


def run(
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as methods=[dpr,npc]")] = None,
    suite: Annotated[str, option("NAME", "a suite, or a .yaml file", complete=suite_names)] = "pydocs",
    seeds: Annotated[int | None, option("N", "seeds 0 to N - 1 instead of the suite's")] = None,
    data: Annotated[str | None, option("DIR", "where the suite's sets lie (default: as the suite says)")] = None,
    own: Annotated[list[str] | None, option("FILE", "one more set, of your own pairs (repeatable)", "--set")] = None,
    jobs: Annotated[int | None, option("N", "steps at a time (default: one a core)")] = None,
    engine: Engine = "local",
    out: Annotated[str | None, option("DIR", "copy the page and its tables there")] = None,
    refresh: Refresh = None,
    dry_run: Annotated[bool, flag("--dry-run", "show the steps that are cached and the ones that would run")] = False,
    store: StoreUrl = None,
) -> int:
    """Compare denoisers under wrong pairs put in on purpose.

    example: noisyir bench noise --suite pydocs --seeds 3
    """
    from noisyir.app.console import observer_for
    from noisyir.app.dry_run import estimates, print_dry_run
    from noisyir.app.runs import run_suite
    from noisyir.engine.plan import Choice, forecast
    from noisyir.methods.plans.planning import bench_of

    choice = Choice(refresh=tuple(refresh or ()))
    with observer_for(sys.stderr) as observer:
        chosen, execution = opened_suite(
            suite, overrides, seeds=seeds, data=data, own=own, jobs=jobs, store=store, observer=observer
        )
        if dry_run:
            states = forecast(bench_of(chosen), choice, execution.store)
            print_dry_run(states, estimates(states, execution.store, chosen.name))
            return 0
        execution.store.check_writable()
        call = run_suite if engine == "local" else prefect_engine("bench_noise").run_suite
        outcome = call(chosen, choice, execution)
    _print(outcome, execution.store, out)
    return 0


def opened_suite(
    suite: str,
    overrides: list[str] | None,
    *,
    observer: Observer,
    seeds: int | None = None,
    data: str | None = None,
    own: list[str] | None = None,
    jobs: int | None = None,
    store: str | None = None,
) -> tuple[Suite, Execution]:
    """Return a suite on the available data, and its execution context; prints which sets differ from the protocol."""
    from noisyir.app.protocol import with_data
    from noisyir.app.runs import Execution
    from noisyir.engine.remote.parallel import at_once
    from noisyir.methods import experiments

    settings, machine = split_settings(overrides)
    chosen = experiments.with_seeds(experiments.load_suite(suite, settings), seeds)
    opened = open_store(store)
    chosen, said = with_data(chosen, data, own or [])
    for line in said:
        print(line, file=sys.stderr)
    runtime = at_once(experiments.load_runtime(machine), jobs)
    return chosen, Execution(store=opened, runtime=runtime, observer=observer)


def _print(outcome: Outcome, store: Store, out: str | None) -> None:
    """Print the table and the page's path, after copying the page to the folder `out`."""
    from rich.markdown import Markdown
    from rich.text import Text

    from noisyir.app.console import stdout_console

    page = outcome.kept["bench_page"]
    folder, console = store.builds.folder(page), stdout_console()
    told = (folder / "bench.md").read_text(encoding="utf-8")
    console.print(Markdown(told) if console.is_terminal else Text(told), soft_wrap=not console.is_terminal)
    if out:
        folder = _copied(folder, Path(out))
    console.print(f"page        {folder / 'bench.html'}")
    console.print(f"per query   noisyir show {page.key[:12]}")


def _copied(folder: Path, out: Path) -> Path:
    """Copy the page and its tables to the user's folder, replacing an earlier bench."""
    with StoreError.wrapping("front.cannot_write_out", out=out):
        out.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            shutil.copyfile(path, out / path.name)
    return out
