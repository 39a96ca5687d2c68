"""`noisyir trace`: what an artifact was made from, down to the digests of the raw input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from noisyir.front.commands import Json, StoreUrl, argument, experiment_names, open_store, print_json

if TYPE_CHECKING:
    from rich.tree import Tree

    from noisyir.engine.meta import Meta
    from noisyir.engine.store import Store


def run(
    build: Annotated[
        str, argument("MODEL|BUILD", "an experiment's name, a stage, or the start of a key", experiment_names)
    ],
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Show the builds behind an artifact, down to the raw input.

    example: noisyir trace demo
    """
    from rich.tree import Tree

    from noisyir.app.console import stdout_console
    from noisyir.app.lookup import find_build
    from noisyir.engine.provenance import lineage

    opened = open_store(store)
    meta = find_build(opened, build)
    if as_json:
        refs = [meta.ref(name) for name in meta.artifacts]
        return print_json({"builds": [json.loads(m.to_json()) for m in lineage(opened, refs)]})
    tree = Tree(_label(meta))
    _grow(tree, opened, meta, seen=set())
    stdout_console().print(tree, soft_wrap=False)
    return 0


def _grow(tree: Tree, store: Store, meta: Meta, seen: set[str]) -> None:
    for name, value in meta.inputs.items():
        if isinstance(value, str):
            tree.add(f"[dim]{name}[/] {value}  [dim](raw input)[/]")
    for name, ref in meta.input_refs():
        source = store.builds.meta(ref)
        above = source.build in seen
        branch = tree.add(f"[dim]{name}[/] {_label(source)}" + (" [dim](above)[/]" if above and source.inputs else ""))
        if above:
            continue
        seen.add(source.build)
        _grow(branch, store, source, seen)


def _label(meta: Meta) -> str:
    return f"[bold]{meta.stage}[/] {meta.key[:12]} {meta.created[:16].replace('T', ' ')}"
