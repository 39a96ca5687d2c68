"""`noisyir store gc`: delete builds that no recent run and no registered model needs."""

from __future__ import annotations

import socket
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from noisyir.front.commands import StoreUrl, file_size, flag, open_store, option

if TYPE_CHECKING:
    from noisyir.engine.store import Store

_GRACE = timedelta(days=1)  # uploads in progress on other machines have no meta yet


def run(
    keep_runs: Annotated[int, option("N", "runs that keep their artifacts")] = 5,
    dry_run: Annotated[bool, flag("--dry-run", "only list the builds that would be deleted, and why")] = False,
    yes: Annotated[bool, flag("--yes", "do not ask on a terminal before anything is deleted")] = False,
    store: StoreUrl = None,
) -> int:
    """Delete what no recent run and no registered model needs.

    Nothing is deleted while a run uses the store, of this machine or on S3 of any: gc gives up, or waits with --wait.

    example: noisyir store gc --keep-runs 3
    """
    from noisyir.app.retention import deletable, keys_to_go_on_with

    opened = open_store(store)
    opened.check_readable()  # builds that cannot be read could not protect their inputs
    if not dry_run:
        opened.check_writable()
        if not yes and sys.stdin.isatty() and not _agreed(opened, keep_runs):
            return 0
    verb, builds, size = "would delete" if dry_run else "deleting", 0, 0
    with opened.locks.in_use() if dry_run else opened.locks.alone():
        for meta, why in deletable(opened, keep_runs=keep_runs, host=socket.gethostname()):
            print(f"{verb} {meta.stage} {meta.key[:12]} {file_size(meta.size)}: {why}")
            builds, size = builds + 1, size + meta.size
            if not dry_run:
                opened.builds.remove(meta)
        orphans = opened.builds.orphans(_GRACE)
        for folder in orphans:
            print(f"{verb} {folder}: its build never ended")
            if not dry_run:
                opened.builds.remove_folder(folder)
        left = [] if dry_run else opened.work.remove_leftovers(keys_to_go_on_with(opened, keep_runs=keep_runs))
    print(f"{builds} builds, {file_size(size)}; leftovers of unfinished builds: {len(left) + len(orphans)}")
    return 0


def _agreed(store: Store, keep_runs: int) -> bool:
    """Ask the user at the terminal to confirm deletion, listing the builds and the time they took."""
    from noisyir.app.retention import unneeded

    with store.locks.in_use():
        doomed = list(unneeded(store, keep_runs=keep_runs, host=socket.gethostname()).values())
    for meta, why in doomed:
        print(f"{meta.stage} {meta.key[:12]} {file_size(meta.size)}, {meta.seconds:.1f} s to make: {why}")
    took = sum(meta.seconds for meta, _ in doomed)
    asked = f"delete {len(doomed)} builds, {file_size(sum(meta.size for meta, _ in doomed))}, {took:.0f} s to make?"
    return not doomed or typer.confirm(asked)
