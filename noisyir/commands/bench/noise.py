"""`noisyir bench noise`: every denoiser on every kind of noise in one table, with significance."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from noisyir.commands import (
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
from noisyir.errors import StoreError

if TYPE_CHECKING:
    from noisyir.app.runs import Outcome
    from noisyir.engine.store import Store


def run(
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as methods=[dpr,npc]")] = None,
    suite: Annotated[str, option("NAME", "a suite, or a .yaml file", complete=suite_names)] = "pydocs",
    seeds: Annotated[int | None, option("N", "seeds 0 to N - 1 instead of the suite's")] = None,
    jobs: Annotated[int | None, option("N", "steps at a time (default: one a core)")] = None,
    engine: Engine = "local",
    out: Annotated[str | None, option("DIR", "copy the page and its tables there")] = None,
    refresh: Refresh = None,
    dry_run: Annotated[bool, flag("--dry-run", "show what is cached and what would run")] = False,
    store: StoreUrl = None,
) -> int:
    """Compare denoisers under wrong pairs put in on purpose.

    example: noisyir bench noise --suite pydocs --seeds 3
    """
    from noisyir import experiments
    from noisyir.app.console import observer_for
    from noisyir.app.dry_run import print_forecast
    from noisyir.app.runs import Execution, run_suite
    from noisyir.engine.parallel import at_once
    from noisyir.engine.plan import Choice, forecast
    from noisyir.pipelines.planning import bench_of
    from noisyir.tracking import open_tracker

    settings, machine = split_settings(overrides)
    chosen = experiments.with_seeds(experiments.load_suite(suite, settings), seeds)
    choice, opened = Choice(refresh=tuple(refresh or ())), open_store(store)
    if dry_run:
        print_forecast(forecast(bench_of(chosen), choice, opened))
        return 0
    opened.check_writable()
    runtime = at_once(experiments.load_runtime(machine), jobs)
    call = run_suite if engine == "local" else prefect_engine("bench_noise").run_suite
    tracker = open_tracker(experiment=chosen.experiment, home=opened.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        outcome = call(chosen, choice, Execution(store=opened, runtime=runtime, tracker=tracker, observer=observer))
    _print(outcome, opened, out)
    return 0


def _print(outcome: Outcome, store: Store, out: str | None) -> None:
    """The table, and where its page is, which is copied to the folder `out` first."""
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
    """Copy the page and its tables to a folder that the user named; files of an earlier bench give way."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            shutil.copyfile(path, out / path.name)
    except OSError as error:
        raise StoreError(f"cannot write to the folder --out {out}: {error}") from error
    return out
