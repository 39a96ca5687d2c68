"""`noisyir show`: show a build or its origin, a run's page, and a run's decisions about a query."""

from __future__ import annotations

import json
import webbrowser
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING, Annotated

import typer

from noisyir.base.errors import StoreError
from noisyir.front.commands import (
    Json,
    StoreUrl,
    argument,
    experiment_names,
    file_size,
    flag,
    open_store,
    option,
    print_json,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.tree import Tree

    from noisyir.audits.query_decisions import Decisions
    from noisyir.engine.meta import Meta
    from noisyir.engine.store import Store

CELL = 60  # characters per value in a terminal table
_PAGES = [("report", "report.html"), ("audit_files", "audit.html")]


def run(
    name: Annotated[
        str | None,
        argument("NAME", "a stage (its newest build), the start of a key, or an experiment", experiment_names),
    ] = None,
    rows: Annotated[int, option("N", "rows shown of each table")] = 3,
    trace: Annotated[bool, flag("--trace", "show the builds behind it instead, down to the raw input")] = False,
    page: Annotated[bool, flag("--page", "open the report of its last run, or the page of a file's audit")] = False,
    query: Annotated[
        str | None, option("ID", "show each stage's decision about this query (default: last run)")
    ] = None,
    document: Annotated[str | None, option("ID", "with --query: about its pair with this document")] = None,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Show a build or its origin, open a page, explain a query.

    A build is shown with its settings, inputs, tables and first rows.  A page's place is printed, too.

    example: noisyir show demo --page
    """
    _check_together(page=page, trace=trace, query=query, document=document)
    opened = open_store(store)
    if query is not None:
        return _show_account(opened, name, query, document, as_json=as_json)
    if name is None:
        raise typer.BadParameter("NAME is missing: noisyir status --builds lists what can be shown")
    if page:
        return _open_page(opened, name, as_json=as_json)
    if trace:
        return _show_trace(opened, name, as_json=as_json)
    return _show_build(opened, name, rows, as_json=as_json)


def _check_together(*, page: bool, trace: bool, query: str | None, document: str | None) -> None:
    if page + trace + (query is not None) > 1:
        raise typer.BadParameter("--trace, --page and --query exclude each other")
    if document is not None and query is None:
        raise typer.BadParameter("--document goes with --query")


def _show_build(store: Store, name: str, rows: int, *, as_json: bool) -> int:
    from noisyir.app.lookup import find_build

    meta = find_build(store, name)
    if as_json:
        head = {name: _head(store, meta, name, rows) for name in meta.artifacts}
        return print_json({**json.loads(meta.to_json()), "head": head})
    _print(store, meta, rows)
    return 0


def _print(store: Store, meta: Meta, rows: int) -> None:
    from noisyir.app.console import stdout_console

    out = stdout_console()
    out.print(f"{meta.stage} v{meta.version}  {meta.key}\nbuilt {meta.created[:19]} in {meta.seconds} s")
    out.print(f"code {meta.git_commit or 'of an installed package'}  seed {meta.seed}")
    _section(out, "in its key", _in_key(meta))
    _section(out, "settings", {name: str(value) for name, value in meta.params.items()})
    _section(out, "notes", {name: str(value) for name, value in meta.notes.items()})
    for name, contents in meta.artifacts.items():
        size = file_size(sum(size for size, _ in contents.files.values()))
        count = "" if contents.rows is None else f"{contents.rows:,} rows, "
        out.print(f"\n[bold]{name}[/]  {count}{size}, digest {contents.digest[:12]}")
        out.print(f"  {store.root}/{meta.ref(name).path}")
        if head := _head(store, meta, name, rows):
            out.print(_as_table(head))


def _in_key(meta: Meta) -> dict[str, str]:
    """Return the parts of the key; nothing else about the build affects it."""
    from noisyir.base.settings import flat

    chosen = {f"setting {name}": str(value) for name, value in flat(meta.in_key).items()}
    seed = {} if meta.seed is None else {"seed": str(meta.seed)}
    inputs = {f"input {name}": f"{ref.stage} {ref.key[:12]} {ref.artifact}" for name, ref in meta.input_refs()}
    raw = {f"raw input {name}": f"{digest[:12]} {_place(meta)}" for name, digest in meta.raw.items()}
    return {"stage": f"{meta.stage}, version {meta.version}", **chosen, **seed, **inputs, **raw}


def _section(out: Console, heading: str, values: dict[str, str]) -> None:
    if values:
        out.print(f"\n[bold]{heading}[/]")
        for name, value in values.items():
            out.print(f"  {name:<22} {value}", markup=False)


def _head(store: Store, meta: Meta, artifact: str, rows: int) -> list[dict[str, object]]:
    if meta.artifacts[artifact].rows is None or rows < 1:
        return []
    batch = next(iter(store.builds.batches(meta.ref(artifact), None, rows)), None)
    return list(batch.to_pylist()) if batch is not None else []


def _as_table(head: list[dict[str, object]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from noisyir.base.pages.cells import shorten

    table = Table(*head[0], box=None)
    for row in head:
        texts = [" ".join(str(value).split()) for value in row.values()]
        table.add_row(*(escape(shorten(text, CELL)) for text in texts))
    return table


def _show_trace(store: Store, name: str, *, as_json: bool) -> int:
    """Print the builds behind an artifact as a tree."""
    from rich.tree import Tree

    from noisyir.app.console import stdout_console
    from noisyir.app.lookup import find_build
    from noisyir.engine.provenance import lineage

    meta = find_build(store, name)
    if as_json:
        refs = [meta.ref(name) for name in meta.artifacts]
        return print_json({"builds": [json.loads(m.to_json()) for m in lineage(store, refs)]})
    tree = Tree(_label(meta))
    _grow(tree, store, meta, seen=set())
    stdout_console().print(tree, soft_wrap=False)
    return 0


def _grow(tree: Tree, store: Store, meta: Meta, seen: set[str]) -> None:
    from rich.markup import escape

    for name, digest in meta.raw.items():
        tree.add(f"[dim]{name}[/] {digest.removeprefix('sha256:')[:12]} {escape(_place(meta))} [dim](raw input)[/]")
    for name, ref in meta.input_refs():
        source = store.builds.meta(ref)
        above = source.build in seen
        branch = tree.add(f"[dim]{name}[/] {_label(source)}" + (" [dim](above)[/]" if above and source.inputs else ""))
        if above:
            continue
        seen.add(source.build)
        _grow(branch, store, source, seen)


def _place(meta: Meta) -> str:
    """The file or the weights from outside the store, as a build's settings name them."""
    place = meta.params.get("path") or meta.params.get("weights")
    return f"of {place}" if place else ""


def _label(meta: Meta) -> str:
    return f"[bold]{meta.stage}[/] {meta.key[:12]} {meta.created[:16].replace('T', ' ')}"


def _open_page(store: Store, name: str, *, as_json: bool) -> int:
    """Print the path of a page, and open it if a display is available."""
    from noisyir.app.lookup import kept_by_run, runs_of
    from noisyir.audits.judging.server import has_display

    for artifact, file in _PAGES:
        if (meta := kept_by_run(store, name, artifact)) is not None:
            page = store.builds.folder(meta.ref(artifact)) / file
            if as_json:
                return print_json({"page": page})
            print(page)
            if has_display():
                webbrowser.open(page.as_uri())
            return 0
    raise StoreError("front.no_page", name=name, url=store.url, runs_of=runs_of(store, name, "report"))


def _show_account(store: Store, experiment: str | None, query: str, document: str | None, *, as_json: bool) -> int:
    """Print each stage's decision about a query or a pair."""
    from noisyir.app.console import stdout_console
    from noisyir.audits.query_decisions import decisions_on
    from noisyir.methods.experiments import name_of

    account = decisions_on(store, query, document, experiment and name_of(experiment))
    if as_json:
        print(json.dumps(account.as_json(), indent=2, ensure_ascii=False, default=str))
        return 0
    _print_account(account, stdout_console())
    return 0


def _print_account(account: Decisions, out: Console) -> None:
    from rich.markup import escape

    from noisyir.app.console import plain_table, print_text
    from noisyir.audits.query_decisions import cut

    print_text(out, f"run of {account.experiment}, {account.began:%Y-%m-%d %H:%M}\n")
    texts = {f"query {account.query_id}": account.query or "(left out)"}
    texts |= {f"document {doc_id}": text for doc_id, text in account.texts.items()}
    for heading, text in texts.items():
        print_text(out, f"{heading}  {' '.join(text.split())}")
    table = plain_table("\nstage", "\ndocument", "\nrank", "\nscore", "\nwhat happened")
    for (step, key), decided in groupby(account.decided, key=lambda one: (one.step, one.key)):
        facts = [fact for one in decided for fact in one.facts]
        names = [step, f"[dim]{key[:12]}[/]"] if facts[1:] else [f"{step}\n[dim]{key[:12]}[/]"]
        for name, (event, doc_id, rank, score) in zip(chain(names, repeat("")), facts, strict=False):
            numbers = "" if rank is None else f"{rank:,}", "" if score is None else f"{score:.3f}"
            table.add_row(name, escape(doc_id or ""), *numbers, escape(cut(event)))
    out.print(table)
