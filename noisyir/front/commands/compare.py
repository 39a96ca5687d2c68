"""`noisyir compare`: compare two systems query by query: which one is better, where, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from noisyir.front.commands import Json, StoreUrl, argument, experiment_names, flag, open_store, option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from noisyir.engine.store import Store
    from noisyir.evaluation.pages.duel import Shift

_SYSTEM = "an experiment that has run, its file, or EXPERIMENT:SYSTEM, such as demo:bm25"


def run(
    first: Annotated[str, argument("A", _SYSTEM, experiment_names)],
    second: Annotated[str, argument("B", "the system that it is compared with, as A", experiment_names)],
    count: Annotated[int, option("N", "queries shown that gain most, and that lose most", "-n")] = 5,
    html: Annotated[str | None, option("FILE", "write a page, too")] = None,
    corrected: Annotated[str | None, option("DIR", "correct labels by judgements of pools, kept in DIR")] = None,
    judge: Annotated[bool, flag("--judge", "with --corrected: judge the pools on a local page")] = False,
    sample: Annotated[int, option("N", "with --corrected: documents on the sheet to fill")] = 100,
    judgements: Annotated[
        list[str] | None, option("FILE", "with --corrected: verdicts known before (repeatable)")
    ] = None,
    chances: Annotated[str | None, option("FILE", "with --corrected: a judge's chances, or audit.csv")] = None,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Compare two systems query by query, by tests that account for seeds.

    Runs of the same settings under several seeds are taken together.

    example: noisyir compare demo:dpr demo:npc_relabel --html compared.html
    """
    from dataclasses import asdict

    from noisyir.app.comparing import duel
    from noisyir.app.console import print_text, results_table, stdout_console
    from noisyir.base.errors import ConfigError

    if count < 0 or sample < 0:
        raise ConfigError("front.negative_count")
    if html and Path(html).exists() and Path(html).suffix not in (".html", ".htm"):
        raise ConfigError("front.html_is_no_page", html=html)
    pools = _Pools(corrected, judge, sample, judgements or (), chances, html)
    if any([corrected, judge, judgements, chances]):
        return _corrected(open_store(store), (first, second), pools, as_json=as_json)
    found = duel(open_store(store), first, second, count=count)
    if html:
        _write_page(html, found.page())
    if as_json:
        return print_json({**asdict(found), "conclusion": found.conclusion})
    console = stdout_console()
    print_text(console, f"{found.conclusion}\n")
    console.print(results_table(found.rows(), left=2))
    _print_shifts(console, "gain most", found.wins)
    _print_shifts(console, "lose most", found.losses)
    if html:
        console.print(f"\npage        {html}", markup=False)
    return 0


def _write_page(html: str, page: str) -> None:
    from noisyir.base.errors import StoreError

    with StoreError.wrapping("front.cannot_write", target=html):
        Path(html).write_text(page, encoding="utf-8")


class _Pools(NamedTuple):
    """The options of --corrected."""

    folder: str | None
    judge: bool
    sample: int
    judgements: Sequence[str]
    chances: str | None
    html: str | None


def _corrected(store: Store, names: tuple[str, str], given: _Pools, *, as_json: bool) -> int:
    """Print values by labels and corrected ones, and write the sheet to fill, or serve the page."""
    from noisyir.app.audit_folder import write_mended
    from noisyir.app.console import print_text, results_table, stdout_console
    from noisyir.app.correcting import judge_on_page, ruler, write_sheet
    from noisyir.base.errors import ConfigError
    from noisyir.evaluation.pages.ruler import ruler_page

    if not given.folder:
        raise ConfigError("front.without_corrected")
    if as_json and given.judge:
        raise ConfigError("front.json_and_judging")
    folder = Path(given.folder)
    found = ruler(store, names, folder, given.judgements, given.chances)
    if given.judge:
        judge_on_page(store, found, folder)
        found = ruler(store, names, folder)
    told = [*found.told(), *([write_mended(found.pool.labels, found.relevant, folder)] if found.said else [])]
    if not given.judge and (sheet := write_sheet(store, found, folder, given.sample)):
        told.append(f"to judge    {sheet}: fill the column verdict (right, wrong, unsure), then the same command again")
    if given.html:
        _write_page(given.html, ruler_page(found))
        told.append(f"page        {given.html}")
    rows = found.rows()
    if as_json:
        return print_json({"rows": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]], "told": told})
    console = stdout_console()
    console.print(results_table(rows, left=2))
    print_text(console, "\n".join(["", *told]))
    return 0


def _print_shifts(console: Console, what: str, shifts: Sequence[Shift]) -> None:
    if shifts:
        console.print(f"\nqueries that {what}")
    for shift in shifts:
        console.print(f"{shift.first:.3f} -> {shift.second:.3f}  {shift.query}", markup=False)
        console.print(f"{'':<16}{shift.why}", markup=False)
