"""`noisyir gc`: delete builds that no recent run and no registered model needs."""

from typing import Annotated

from noisyir.commands import StoreUrl, flag, open_store, option
from noisyir.commands.ls import human_bytes


def run(
    keep_runs: Annotated[int, option("N", "runs whose artifacts stay")] = 5,
    dry_run: Annotated[bool, flag("--dry-run", "only say what would be deleted")] = False,
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
