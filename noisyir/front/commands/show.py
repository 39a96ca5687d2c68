"""`noisyir show`: one build's settings, inputs, artifacts and first rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from noisyir.front.commands import Json, StoreUrl, argument, open_store, option, print_json
from noisyir.front.commands.ls import human_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from noisyir.engine.meta import Meta
    from noisyir.engine.store import Store

CELL = 60  # characters of a value that a terminal's table shows


def run(
    build: Annotated[str, argument("BUILD", "a stage's name (its newest build), or the start of a key")],
    rows: Annotated[int, option("N", "rows shown of each table")] = 3,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Show one build: settings, inputs, tables, first rows.

    example: noisyir show ingest
    """
    from noisyir.app.lookup import find_build

    opened = open_store(store)
    meta = find_build(opened, build)
    if as_json:
        head = {name: _head(opened, meta, name, rows) for name in meta.artifacts}
        return print_json({**json.loads(meta.to_json()), "head": head})
    _print(opened, meta, rows)
    return 0


def _print(store: Store, meta: Meta, rows: int) -> None:
    from noisyir.app.console import stdout_console

    out = stdout_console()
    out.print(f"{meta.stage} v{meta.version}  {meta.key}\nbuilt {meta.created[:19]} in {meta.seconds} s")
    out.print(f"code {meta.git_commit or 'of an installed package'}  seed {meta.seed}")
    _section(out, "in its key", _in_key(meta))
    _section(out, "settings", {name: str(value) for name, value in meta.params.items()})
    _section(out, "inputs", {name: f"{ref.stage} {ref.key[:12]} {ref.digest[:12]}" for name, ref in meta.input_refs()})
    _section(out, "raw input", {name: value for name, value in meta.inputs.items() if isinstance(value, str)})
    _section(out, "notes", {name: str(value) for name, value in meta.notes.items()})
    for name, contents in meta.artifacts.items():
        size = human_bytes(sum(size for size, _ in contents.files.values()))
        count = "" if contents.rows is None else f"{contents.rows:,} rows, "
        out.print(f"\n[bold]{name}[/]  {count}{size}, digest {contents.digest[:12]}")
        out.print(f"  {store.root}/{meta.ref(name).path}")
        if head := _head(store, meta, name, rows):
            out.print(_as_table(head))


def _in_key(meta: Meta) -> dict[str, str]:
    """The parts of the key: nothing else about the build decides it."""
    from noisyir.base.settings import flat

    chosen = {f"setting {name}": str(value) for name, value in flat(meta.in_key).items()}
    seed = {} if meta.seed is None else {"seed": str(meta.seed)}
    inputs = {f"input {name}": f"{ref.stage} {ref.key[:12]} {ref.artifact}" for name, ref in meta.input_refs()}
    raw = {f"raw input {name}": value[:12] for name, value in meta.inputs.items() if isinstance(value, str)}
    return {"stage": f"{meta.stage}, version {meta.version}", **chosen, **seed, **inputs, **raw}


def _section(out: Console, heading: str, values: dict[str, str]) -> None:
    if values:
        out.print(f"\n[bold]{heading}[/]")
        for name, value in values.items():
            out.print(f"  {name:<22} {value}", markup=False)


def _head(store: Store, meta: Meta, artifact: str, rows: int) -> list[dict[str, object]]:

    contents = meta.artifacts[artifact]
    if contents.rows is None or rows < 1:
        return []
    for batch in store.builds.batches(meta.ref(artifact), None, rows):
        return list(batch.to_pylist())
    return []


def _as_table(head: list[dict[str, object]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from noisyir.base.pages.cells import shorten

    table = Table(*head[0], box=None)
    for row in head:
        texts = [" ".join(str(value).split()) for value in row.values()]
        table.add_row(*(escape(shorten(text, CELL)) for text in texts))
    return table
