"""`noisyir fetch`: copy a model or a data set into the store, for all workers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from noisyir.base.errors import ConfigError
from noisyir.front.commands import Json, StoreUrl, argument, file_size, flag, open_store, option, print_json

if TYPE_CHECKING:
    from noisyir.engine.remote.fetched import FetchedSet
    from noisyir.engine.store import Store

_PLACE = "a name of the Hugging Face Hub, a URL such as s3://bucket/folder, or a file or folder"


def run(
    place: Annotated[str | None, argument("NAME_OR_URL", _PLACE)] = None,
    name: Annotated[str | None, option("NAME", "what settings call it (default: as given)", "--as")] = None,
    revision: Annotated[str | None, option("REVISION", "of the Hub: branch, tag or commit")] = None,
    dataset: Annotated[bool, flag("--dataset", "of the Hub: a data set, not a model")] = False,
    again: Annotated[bool, flag("--again", "fetch it again although the store has it")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "say how large it is, and fetch nothing")] = False,
    forget: Annotated[bool, flag("--forget", "remove it from the store")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Bring a model or data set into the store; without a name, list its content.

    Settings that name it, such as model.weights=NAME or data.path=NAME, then find it on every machine that has nothing
    of that name itself.

    example: noisyir fetch google-bert/bert-base-uncased --store s3://bucket/store
    """
    from dataclasses import asdict

    from noisyir.app.fetching import fetch, source_of

    opened = open_store(store)
    if place is None:
        listed = opened.fetched.all()
        return print_json([asdict(one) for one in listed]) if as_json else _list(opened, listed)
    there = None if again else opened.fetched.find(name or place)
    if forget:
        return _forget(opened, there, name or place)
    if there is None or again or dry_run:
        source = source_of(place, revision, "dataset" if dataset else "model")
        count, size = len(source.sizes), file_size(sum(source.sizes.values()))
        at = f" at {source.revision}" if source.revision else ""
        typer.echo(f"{place}{at}: {size} in {count} files", err=True)
        if dry_run:
            return 0
        opened.check_writable()
        there = fetch(opened, source, place, name, _tell)
    elif name is not None and there.source != place:
        raise ConfigError("front.name_taken", name=name, source=there.source, place=place)
    elif revision not in (None, there.revision):
        raise ConfigError("front.other_revision", there=there.name, revision=there.revision, wanted=revision)
    if as_json:
        return print_json(asdict(there))
    print(f"{there.name}  {file_size(there.size)}  sha256:{there.ref.digest[:12]}  in {opened.url}")
    return 0


def _tell(file: str, done: int, total: int) -> None:

    print(f"  {file_size(done)} of {file_size(total)}  {file}", file=sys.stderr)


def _list(store: Store, listed: list[FetchedSet]) -> int:
    from noisyir.app.console import plain_table, stdout_console

    table = plain_table("name", "size", "files", "from", "revision", "fetched (UTC)")
    for one in listed:
        when = one.fetched[:16].replace("T", " ")
        revision = (one.revision or "")[:12]
        table.add_row(one.name, file_size(one.size), str(len(one.files)), one.source, revision, when)
    stdout_console().print(table if listed else f"nothing was fetched into {store.url} yet")
    return 0


def _forget(store: Store, there: FetchedSet | None, name: str) -> int:
    if there is None:
        raise ConfigError("front.nothing_fetched", name=name)
    with store.locks.alone():
        store.fetched.forget(name)
    print(f"{name} is gone from {store.url}")
    return 0
