"""`noisyir store verify`: compare every stored file with the digest written at publication."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from noisyir.base.errors import StoreError
from noisyir.front.commands import StoreUrl, argument, flag, open_store

if TYPE_CHECKING:
    from noisyir.engine.store import Store


def run(
    build: Annotated[str | None, argument("BUILD", "only this build")] = None,
    repair: Annotated[bool, flag("--repair", "remove damaged builds, and the ones that rest on them")] = False,
    store: StoreUrl = None,
) -> int:
    """Check the digest of every stored file, and of MLflow's copies of registered models.

    Lists damaged files.  With --repair they are removed, and the next run builds them again; a copy of MLflow's is
    replaced by the store's.

    example: noisyir store verify --repair
    """
    from noisyir.app.lookup import command_for, find_build
    from noisyir.app.retention import damaged, damaged_models, mend_models
    from noisyir.engine.remote.fetched import STAGE as FETCH
    from noisyir.engine.remote.fetched import FetchedSet

    opened = open_store(store)
    opened.check_readable()
    with opened.locks.alone() if repair else opened.locks.in_use():
        builds = [find_build(opened, build)] if build else opened.builds.all()
        found, records = damaged(opened, builds), {} if build else opened.damaged_records()
        lost = [FetchedSet.of(meta) for meta in builds if meta.stage == FETCH and meta.folder in found]
        models, copies = ({}, []) if build else damaged_models(opened)
        if repair:
            _repair(opened, found, records)
            left = mend_models(opened, copies)
    if not (faults := {**found, **records, **models}):
        files = sum(len(contents.files) for meta in builds for contents in meta.artifacts.values())
        print(f"{len(builds)} builds, {files} files: all as written")
        return 0
    lines = [f"{folder}: {fault}" for folder, fault in faults.items()]
    if not repair:
        raise StoreError("\n".join(["damaged:", *lines, "remove or mend it: noisyir store verify --repair"]))
    used = dict.fromkeys(command_for(opened, folder) for folder in sorted(found, key=lambda one: one.split("/")[-1]))
    cures = [f"build it again: {command}" for command in used if command]
    cures += [f"fetch it again: {one.command}" for one in lost]
    print("\n".join(["removed or mended:", *lines, *cures, *left]))
    return 0


def _repair(store: Store, builds: Iterable[str], records: Iterable[str]) -> None:
    for folder in builds:
        store.builds.remove_folder(folder, keep_name=True)
    for record in records:
        store.runs.set_aside(record)
