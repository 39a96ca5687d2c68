"""`noisyir ls`: the builds in the store, or the runs that used them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from noisyir.front.commands import Json, StoreUrl, argument, flag, open_store, print_json

if TYPE_CHECKING:
    from noisyir.engine.meta import Meta
    from noisyir.engine.store import Store


_KEY = 7  # letters of a key, as in a dry run
_WIDE = 120  # columns: a narrower terminal has no room for numbers of rows


def run(
    stage: Annotated[str | None, argument("STAGE", "only what this stage wrote")] = None,
    runs: Annotated[bool, flag("--runs", "list pipeline runs instead, newest first")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """List artifacts or runs.

    example: noisyir ls warm_up
    """
    opened = open_store(store)
    if runs:
        return _print_runs(opened, as_json=as_json)
    builds = [meta for meta in opened.builds.all() if stage in (None, meta.stage)]
    if as_json:
        return print_json({"builds": [_as_json(meta) for meta in builds]})
    from noisyir.app.console import plain_table, stdout_console
    from noisyir.app.lookup import folders_of

    console = stdout_console()
    used: dict[str, str] = {}
    for run in opened.runs.all():  # newest first: of a build that several runs used the first of them
        used |= dict.fromkeys(folders_of(run), run["experiment"])
    wide = console.width >= _WIDE
    table = plain_table("stage", "key", "experiment", "built", "size", "took", *(["rows"] if wide else []))
    for meta in builds:
        rows = ", ".join(f"{name} {c.rows:,}" for name, c in meta.artifacts.items() if c.rows is not None)
        size, seconds = human_bytes(meta.size), f"{meta.seconds:.1f} s"
        made = meta.created[:16].replace("T", " ")
        cells = [meta.stage, meta.key[:_KEY], used.get(meta.folder, ""), made, size, seconds, rows]
        table.add_row(*cells[: len(table.columns)])
    stages = ", ".join(sorted({meta.stage for meta in opened.builds.all()}))
    none = f"no build of {stage!r} in {opened.url}; there are builds of {stages}"
    console.print(table if builds else none if stages else f"nothing in {opened.url} yet: noisyir run demo")
    return 0


def human_bytes(count: float) -> str:
    """`1.5 MB` and the like, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _as_json(meta: Meta) -> dict[str, object]:
    return {
        "stage": meta.stage, "key": meta.key, "build": meta.build, "created": meta.created, "seconds": meta.seconds,
        "bytes": meta.size, "rows": {name: contents.rows for name, contents in meta.artifacts.items()},
    }  # fmt: skip


def _print_runs(store: Store, *, as_json: bool) -> int:
    runs = store.runs.all()
    if as_json:
        return print_json({"runs": runs})
    from noisyir.app.console import plain_table, stdout_console

    table = plain_table("began", "experiment", "status", "stages", "took", "facts")
    for run in runs:
        told = ["error"] if "error" in run["facts"] else run["facts"]  # of a failure --json has the traceback
        facts = ", ".join(f"{name} {' '.join(str(run['facts'][name]).split()):.80}" for name in told)
        steps = run["steps"].values()
        done = f"{sum(s['cached'] is False for s in steps)} run, {sum(bool(s['cached']) for s in steps)} cached"
        began = run["began"][:19].replace("T", " ")
        table.add_row(began, run["experiment"], run["status"], done, f"{run['seconds']:.1f} s", facts)
    stdout_console().print(table if runs else "no runs yet: noisyir run demo")
    return 0
