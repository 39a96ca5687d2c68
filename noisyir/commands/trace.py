"""`noisyir trace`: what an artifact was made from, down to the digests of the raw input."""

import json
from argparse import Namespace

from rich.tree import Tree

from noisyir.app.console import stdout_console
from noisyir.app.lookup import find_build
from noisyir.commands import open_store
from noisyir.engine.builds import Meta
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store


def run(args: Namespace) -> int:
    """Print the tree of builds behind a model or any other build."""
    store = open_store(args)
    meta = find_build(store, args.build)
    if args.json:
        refs = [meta.ref(name) for name in meta.artifacts]
        print(json.dumps({"builds": [json.loads(m.to_json()) for m in lineage(store, refs)]}, indent=2))
        return 0
    tree = Tree(_label(meta))
    _grow(tree, store, meta, seen=set())
    stdout_console().print(tree)
    return 0


def _grow(tree: Tree, store: Store, meta: Meta, seen: set[str]) -> None:
    for name, value in meta.inputs.items():
        if isinstance(value, str):
            tree.add(f"[dim]{name}[/] {value}  [dim](raw input)[/]")
    for name, ref in meta.input_refs():
        source = store.meta(ref)
        branch = tree.add(f"[dim]{name}[/] {_label(source)}  digest {ref.digest[:12]}")
        if source.build in seen:
            if source.inputs:
                branch.add("[dim]as above[/]")
            continue
        seen.add(source.build)
        _grow(branch, store, source, seen)


def _label(meta: Meta) -> str:
    return (
        f"[bold]{meta.stage}[/] {meta.key[:12]}  {meta.created[:19].replace('T', ' ')}  code {meta.git_commit or '-'}"
    )
