"""`noisyir status`: active and recent runs with results, failures, registered models, and builds."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from noisyir.base.durations import duration
from noisyir.base.errors import ConfigError, NoisyirError
from noisyir.front.commands import Json, StoreUrl, Verbose, argument, file_size, flag, open_store, option, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from noisyir.app.status import RunState, StageRate
    from noisyir.engine.store import Store

_KEY = 7  # characters of a key, as in a dry run
_WIDE = 120  # columns; narrower terminals omit row counts
_FAILED = ("failed", "killed", "unregistered")
_LONGEST_AGO = 1_000_000  # hours: a century
_COLOURS = {"done": "green", "failed": "red", "killed": "red", "running": "yellow", "unknown": "yellow",
            "cancelled": "yellow", "unregistered": "red"}  # fmt: skip


def run(
    stage: Annotated[str | None, argument("STAGE", "list the builds of this stage instead")] = None,
    builds: Annotated[bool, flag("--builds", "list all builds instead")] = False,
    hours: Annotated[float, option("N", "how far to look back")] = 24.0,
    log: Annotated[bool, flag("--log", "print the log of the last run that failed")] = False,
    verbose: Verbose = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Show running, recent and failed runs, and which model is champion.

    The exit code is 0, also after failed runs.  With STAGE or --builds the builds in the store are listed instead.

    example: noisyir status --hours 12
    """
    from noisyir.app.console import print_text, stdout_console
    from noisyir.app.status import hours_ago, run_states, stage_rates

    if not 0 < hours < _LONGEST_AGO:
        raise ConfigError("front.bad_hours", longest_ago=_LONGEST_AGO, hours=hours)
    opened, since = open_store(store), hours_ago(hours)
    if stage or builds:
        return _list_builds(opened, stage, as_json=as_json)
    runs, out = run_states(opened, socket.gethostname(), since), stdout_console()
    if log:
        fell = sorted((state for state in runs if state.state in _FAILED), key=lambda state: state.began, reverse=True)
        print_text(out, next(map(_log, fell), f"no run failed in the last {hours:g} hours"))
        return 0
    models, unknown = _models()
    rates = stage_rates(opened, since) if as_json or verbose else []
    if as_json:
        stages = [{**asdict(rate), "hit_rate": rate.hit_rate} for rate in rates]
        return print_json(
            {"runs": [asdict(state) for state in runs], "stages": stages, "models": models, "registry": unknown}
        )
    _print_runs(out, runs, f"no run began in the last {hours:g} hours: noisyir status --hours N looks further back")
    _print(out, "Models", _model_rows(models, verbose=verbose))
    told = [f"Models    {unknown}"] if unknown else []
    size = f"{file_size(sum(meta.size for meta in opened.builds.all()))} in " if opened.is_local else ""
    told += [f"Disk      {size}{opened.url}"]
    told += [f"{'':<10}stages and times: noisyir status -v"] if runs and not verbose else []
    print_text(out, "\n".join(told))
    if rates:
        out.print()
        out.print(_rates_table(rates))
    return 0


def _print_runs(out: Console, runs: Sequence[RunState], older: str) -> None:
    """Print active runs, finished runs, and failures; `older` is printed if none finished."""
    from noisyir.app.console import print_text

    at_work = [state for state in runs if state.state in ("running", "unknown")]
    ended, failed = [state for state in runs if state not in at_work], _failed(runs)
    _print(out, "Running", [_of_run(state, state.now) for state in at_work] or [["nothing"]])
    _print(out, "Last", [_of_run(state, state.result) for state in ended] or ([] if at_work else [[older]]))
    for number, state in enumerate(failed):
        print_text(out, f"{'' if number else 'Failed':<10}{_called(state)}: {_what_failed(state)}")
    if failed:
        print_text(out, f"{'':<10}log: noisyir status --log\n{'':<10}the same command goes on from there")


def _print(out: Console, heading: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a section's heading and rows; nothing if there are no rows."""
    from rich.table import Table

    section = Table.grid(padding=(0, 2, 0, 0))
    section.add_column(width=8)
    for number, row in enumerate(rows):
        section.add_row("" if number else heading, *row)
    if rows:
        out.print(section)


def _failed(runs: Sequence[RunState]) -> list[RunState]:
    """Return runs that failed and that no later run of their name went beyond; the newest is first."""
    newest: dict[tuple[str, str], RunState] = {}
    for state in sorted(runs, key=lambda state: state.began):
        before = newest.get((state.verb, state.experiment))
        is_part = before is not None and state.built + state.cached <= before.built + before.cached
        if not (is_part and before and before.state in _FAILED and state.state == "done"):
            newest[state.verb, state.experiment] = state
    return [state for state in reversed(newest.values()) if state.state in _FAILED]


def _of_run(state: RunState, result: str) -> list[str]:
    from rich.markup import escape

    told = [f"[{_COLOURS[state.state]}]{state.state}[/]", result and escape(result)]
    told += [escape(state.facts["registered"])] if "registered" in state.facts else []
    return [state.experiment, state.verb, _when(state.began), duration(state.seconds), ", ".join(filter(None, told))]


def _when(began: datetime) -> str:
    """Format a local time, with the date if it is not today."""
    here = began.astimezone()
    return f"{here:%H:%M}" if here.date() == datetime.now().astimezone().date() else f"{here:%d %b %H:%M}"


def _called(state: RunState) -> str:
    return " ".join(filter(None, [state.verb, f"{state.experiment},", _when(state.began)]))


def _what_failed(state: RunState) -> str:
    if state.state == "killed":
        return "its process is gone, killed or out of memory, before the run ended"
    if state.state == "unregistered":
        return "all is done, but MLflow was lost before its models were registered"
    said = str(state.error).removeprefix(f"stage {state.failed_in}: ")
    return f"in {state.failed_in}: {said}" if state.failed_in else said


def _log(state: RunState) -> str:
    kept = Path(state.log) if state.log else None
    said = kept.read_text(encoding="utf-8") if kept and kept.is_file() else "no log of it is on this machine"
    return f"{'  '.join(filter(None, [_called(state), state.page or state.log]))}\n{said}"


def _models() -> tuple[list[dict[str, Any]], str | None]:
    """Return versions with registry aliases, or the reason they are unknown; never creates a database."""
    from noisyir.engine.runtime import default_home

    home = default_home()
    if not (os.environ.get("MLFLOW_TRACKING_URI") or (home / "mlflow.db").exists()) or find_spec("mlflow") is None:
        return [], None
    from noisyir.registry.standing import standing

    try:
        return standing(home), None
    except NoisyirError as error:
        return [], str(error)


def _model_rows(models: Sequence[dict[str, Any]], *, verbose: bool) -> list[list[str]]:
    """Return name and version, experiment, measures and aliases; `verbose` shows all measures with intervals."""
    from noisyir.registry.registry import CHAMPION

    champions, rows = {model["name"] for model in models if CHAMPION in model["aliases"]}, []
    for model in models:
        found = model["measures"]
        means = [name for name in found if not name.endswith((".low", ".high"))]
        ends = {n: f" \\[{found[f'{n}.low']:.3f}, {found[f'{n}.high']:.3f}]" for n in means if verbose}
        measures = {n: re.sub(r"_(\d+)$", r"@\1", n) for n in means}  # MLflow allows no @ in tags
        told = [f"{measures[n]} {found[n]:.3f}{ends.get(n, '')}" for n in (means if verbose else means[:1])]
        aliases = ", ".join(model["aliases"]) + ("" if model["name"] in champions else "; no champion")
        rows.append([f"{model['name']} v{model['version']}", model["experiment"], ", ".join(told), aliases])
    return rows


def _rates_table(rates: Sequence[StageRate]) -> Table:
    from noisyir.app.console import plain_table
    from noisyir.base.pages.cells import percent

    table = plain_table("stage", "built", "cached", "hit rate", "seconds", "longest")
    for rate in rates:
        seconds = (f"{sum(rate.seconds):.1f}", f"{max(rate.seconds):.1f}") if rate.seconds else ("", "")
        table.add_row(rate.stage, str(rate.built), str(rate.cached), percent(rate.hit_rate), *seconds)
    return table


def _list_builds(store: Store, stage: str | None, *, as_json: bool) -> int:
    """List the builds of one stage or all, each with the newest experiment that used it."""
    from noisyir.app.console import plain_table, stdout_console
    from noisyir.app.lookup import folders_of

    everything = store.builds.all()
    builds = [meta for meta in everything if stage in (None, meta.stage)]
    if as_json:
        return print_json({"builds": [
            {name: getattr(meta, name) for name in ("stage", "key", "build", "created", "seconds")}
            | {"bytes": meta.size, "rows": {name: contents.rows for name, contents in meta.artifacts.items()}}
            for meta in builds
        ]})  # fmt: skip
    console = stdout_console()
    used: dict[str, str] = {}
    for run in store.runs.all():  # newest first, and the newest run of a build names it
        used = dict.fromkeys(folders_of(run), run["experiment"]) | used
    wide = console.width >= _WIDE
    table = plain_table("stage", "key", "experiment", "built", "size", "took", *(["rows"] if wide else []))
    for meta in builds:
        rows = ", ".join(f"{name} {c.rows:,}" for name, c in meta.artifacts.items() if c.rows is not None)
        size, seconds, made = file_size(meta.size), f"{meta.seconds:.1f} s", meta.created[:16].replace("T", " ")
        cells = [meta.stage, meta.key[:_KEY], used.get(meta.folder, ""), made, size, seconds, rows]
        table.add_row(*cells[: len(table.columns)])
    stages = ", ".join(sorted({meta.stage for meta in everything}))
    none = f"no build of {stage!r} in {store.url}; there are builds of {stages}"
    console.print(table if builds else none if stages else f"nothing in {store.url} yet: noisyir run demo")
    return 0
