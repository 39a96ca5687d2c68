"""`noisyir gc`: delete builds that no recent run and no registered model needs."""

from argparse import Namespace

from noisyir.app.retention import unneeded
from noisyir.commands import open_store
from noisyir.commands.ls import human_bytes


def run(args: Namespace) -> int:
    """Delete, or with --dry-run only list."""
    store = open_store(args)
    doomed = unneeded(store, keep_runs=args.keep_runs)
    for meta in doomed:
        print(f"{'would delete' if args.dry_run else 'deleting'} {meta.stage} {meta.key[:12]} {human_bytes(meta.size)}")
        if not args.dry_run:
            store.remove(meta)
    leftovers = [] if args.dry_run else store.remove_leftovers()
    total = human_bytes(sum(meta.size for meta in doomed))
    print(f"{len(doomed)} builds, {total}; {len(leftovers)} unfinished builds' leftovers")
    return 0
