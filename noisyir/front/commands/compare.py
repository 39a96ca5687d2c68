"""`noisyir compare`: compare two systems query by query: which one is better, where, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from noisyir.front.commands import Json, StoreUrl, argument, experiment_names, open_store, option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from noisyir.evaluation.pages.duel import Shift

_SYSTEM = "an experiment that has run, its file, or EXPERIMENT:SYSTEM, such as demo:bm25"


def run(
    first: Annotated[str, argument("A", _SYSTEM, experiment_names)],
    second: Annotated[str, argument("B", "the system that it is compared with, as A", experiment_names)],
    count: Annotated[int, option("N", "queries shown that gain most, and that lose most", "-n")] = 5,
    html: Annotated[str | None, option("FILE", "write a page, too")] = None,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Compare two systems query by query, by tests that know of seeds.

    Runs of the same settings under several seeds are taken together.

    example: noisyir compare demo:dpr demo:npc_relabel --html compared.html
    """
    from dataclasses import asdict

    from noisyir.app.comparing import duel
    from noisyir.app.console import print_rows, stdout_console
    from noisyir.base.errors import ConfigError, StoreError

    if count < 0:
        raise ConfigError("front.negative_count")
    if html and Path(html).exists() and Path(html).suffix not in (".html", ".htm"):
        raise ConfigError("front.html_is_no_page", html=html)
    found = duel(open_store(store), first, second, count=count)
    if html:
        try:
            Path(html).write_text(found.page(), encoding="utf-8")
        except OSError as error:
            raise StoreError("front.cannot_write", target=html, error=error) from error
    if as_json:
        return print_json({**asdict(found), "conclusion": found.conclusion})
    console = stdout_console()
    console.print(found.conclusion + "\n", markup=False)
    print_rows(console, found.rows(), left=2)
    _print_shifts(console, "gain most", found.wins)
    _print_shifts(console, "lose most", found.losses)
    if html:
        console.print(f"\npage        {html}", markup=False)
    return 0


def _print_shifts(console: Console, what: str, shifts: Sequence[Shift]) -> None:
    if shifts:
        console.print(f"\nqueries that {what}")
    for shift in shifts:
        console.print(f"{shift.first:.3f} -> {shift.second:.3f}  {shift.query}", markup=False)
        console.print(f"{'':<16}{shift.why}", markup=False)
