"""`noisyir gc`: delete builds that no recent run and no registered model needs."""

from datetime import timedelta
from typing import Annotated

from noisyir.commands import StoreUrl, flag, open_store, option
from noisyir.commands.ls import human_bytes

_GRACE = timedelta(days=1)  # what another machine is still uploading has no meta yet


def run(
    keep_runs: Annotated[int, option("N", "runs whose artifacts stay")] = 5,
    wait: Annotated[float, option("SECONDS", "wait so long for runs that use the store; then give up")] = 0.0,
    dry_run: Annotated[bool, flag("--dry-run", "only say what would be deleted, and why")] = False,
    store: StoreUrl = None,
) -> int:
    """Delete what no recent run and no registered model needs.

    Nothing is deleted while a run of this machine uses the store.

    example: noisyir gc --keep-runs 3
    """
    from noisyir.app.retention import unneeded

    opened = open_store(store)
    if not dry_run:
        opened.check_writable()
    with opened.in_use() if dry_run else opened.alone(wait):
        doomed, orphans = unneeded(opened, keep_runs=keep_runs), opened.orphans(_GRACE)
        why = f"no model that is registered and none of the last {keep_runs} runs needs it"
        for meta in doomed:
            told = f"would delete {{}}: {why}" if dry_run else "deleting {}"
            print(told.format(f"{meta.stage} {meta.key[:12]} {human_bytes(meta.size)}"))
            if not dry_run:
                opened.remove(meta)
        for folder in orphans:
            print(f"{'would delete' if dry_run else 'deleting'} {folder}: its build never ended")
            if not dry_run:
                opened.remove_folder(folder)
        leftovers = [] if dry_run else opened.remove_leftovers()
    total = human_bytes(sum(meta.size for meta in doomed))
    print(f"{len(doomed)} builds, {total}; {len(leftovers) + len(orphans)} unfinished builds' leftovers")
    return 0
