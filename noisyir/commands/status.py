"""`noisyir status`: what ran lately, what failed and where to look, and which models stand in the registry."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from noisyir.commands import Json, StoreUrl, Verbose, open_store, option, print_json
from noisyir.errors import ConfigError, NoisyirError

if TYPE_CHECKING:
    from rich.table import Table

    from noisyir.app.status import RunState, StageRate

_LONGEST_AGO = 1_000_000  # hours: a century
_COLOURS = {"done": "green", "failed": "red", "killed": "red", "running": "yellow", "unknown": "yellow",
            "cancelled": "yellow", "unregistered": "red"}  # fmt: skip


def run(
    hours: Annotated[float, option("N", "how far to look back")] = 24.0,
    verbose: Verbose = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Say what ran lately, what failed, and which model is champion.

    Exit code 0 whatever it finds, for a failed run is an answer.

    example: noisyir status --hours 12
    """
    from rich.markup import escape

    from noisyir.app.console import print_text, stdout_console
    from noisyir.app.status import hours_ago, run_states, stage_rates

    if not 0 < hours < _LONGEST_AGO:
        raise ConfigError(f"--hours must be a time to look back, above 0 and below {_LONGEST_AGO:,}, found {hours:g}")
    opened, since = open_store(store), hours_ago(hours)
    runs, rates = run_states(opened, socket.gethostname(), since), stage_rates(opened, since)
    models, unknown = _models()
    if as_json:
        stages = [{**asdict(rate), "hit_rate": rate.hit_rate} for rate in rates]
        return print_json(
            {"runs": [asdict(state) for state in runs], "stages": stages, "models": models, "registry": unknown}
        )
    out = stdout_console()
    older = f"no run began in the last {hours:g} hours in {opened.url}: noisyir ls --runs shows older ones"
    out.print(_runs_table(runs) if runs else older)
    for state in runs:
        if state.state in ("failed", "killed", "unregistered"):
            print_text(out, f"\n{state.experiment}, {state.began:%H:%M}: {_what_failed(state)}")
            print_text(out, f"  look at   {state.page or state.log or f'{opened.url}/.runs/{state.id}.json'}")
            print_text(out, "  go on     the same command: what is built stays, training goes on from its checkpoint")
    about_models = _models_table(models) if models else unknown and escape(unknown)
    for table in (about_models, _rates_table(rates) if rates and verbose else None):
        if table is not None:
            out.print()
            out.print(table)
    if rates and not verbose:
        out.print("\nstages and times: noisyir status -v")
    return 0


def _models() -> tuple[list[dict[str, Any]], str | None]:
    """Versions that the registry's aliases name, or why that is not known; no database is made where there is none."""
    from noisyir.engine.runtime import default_home

    home = default_home()
    if not os.environ.get("MLFLOW_TRACKING_URI") and not (home / "mlflow.db").exists():
        return [], None
    from rich.markup import escape

    from noisyir.engine.outside_errors import in_our_words, is_from_outside
    from noisyir.tracking.standing import standing

    try:
        return standing(home), None
    except Exception as error:
        if not isinstance(error, NoisyirError) and not is_from_outside(error):
            raise
        return [], escape(f"registry  {in_our_words(error)}")


def _what_failed(state: RunState) -> str:
    if state.state == "killed":
        return "its process is gone, killed or out of memory, before the run ended"
    if state.state == "unregistered":
        return "all is done, but MLflow was lost before its models were registered"
    return f"in {state.failed_in}: {state.error}" if state.failed_in else str(state.error)


def _runs_table(runs: Sequence[RunState]) -> Table:
    from noisyir.app.console import plain_table

    table = plain_table("began (UTC)", "experiment", "verb", "took", "state")
    for state in runs:
        coloured = f"[{_COLOURS[state.state]}]{state.state}[/]" + (f" {state.now}" if state.now else "")
        registered = f", {name}" if (name := state.facts.get("registered")) else ""
        began = f"{state.began:%Y-%m-%d %H:%M}"
        table.add_row(began, state.experiment, state.verb, state.took, coloured + registered)
    return table


def _models_table(models: Sequence[dict[str, Any]]) -> Table:
    from noisyir.app.console import plain_table

    table = plain_table("model", "alias", "version", "experiment", "measures")
    for model in models:
        found = model["measures"]
        means = [name for name in found if not name.endswith((".low", ".high"))]
        measures = ", ".join(f"{n} {found[n]:.3f} [{found[f'{n}.low']:.3f}, {found[f'{n}.high']:.3f}]" for n in means)
        table.add_row(model["name"], model["alias"], f"v{model['version']}", model["experiment"], measures)
    return table


def _rates_table(rates: Sequence[StageRate]) -> Table:
    from noisyir.app.console import plain_table

    table = plain_table("stage", "built", "cached", "hit rate", "seconds", "longest")
    for rate in rates:
        seconds = (f"{sum(rate.seconds):.1f}", f"{max(rate.seconds):.1f}") if rate.seconds else ("", "")
        table.add_row(rate.stage, str(rate.built), str(rate.cached), f"{rate.hit_rate:.0%}", *seconds)
    return table
