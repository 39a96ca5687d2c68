"""`noisyir gc`: delete builds that no recent run and no registered model needs."""

from typing import Annotated

import typer

from noisyir.commands import StoreUrl, open_store
from noisyir.commands.ls import human_bytes


def run(
    keep_runs: Annotated[int, typer.Option(metavar="N", help="runs whose artifacts stay")] = 5,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be deleted")] = False,
    store: StoreUrl = None,
) -> int:
    """Delete what no recent run and no registered model needs.

    example: noisyir gc --keep-runs 3
    """
    from noisyir.app.retention import unneeded

    opened = open_store(store)
    doomed = unneeded(opened, keep_runs=keep_runs)
    for meta in doomed:
        print(f"{'would delete' if dry_run else 'deleting'} {meta.stage} {meta.key[:12]} {human_bytes(meta.size)}")
        if not dry_run:
            opened.remove(meta)
    leftovers = [] if dry_run else opened.remove_leftovers()
    total = human_bytes(sum(meta.size for meta in doomed))
    print(f"{len(doomed)} builds, {total}; {len(leftovers)} unfinished builds' leftovers")
    return 0
