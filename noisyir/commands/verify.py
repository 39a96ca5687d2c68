"""`noisyir verify`: compare every stored file with the digest written when it was published."""

from argparse import Namespace

from noisyir.app.lookup import find_build
from noisyir.commands import open_store
from noisyir.errors import StoreError


def run(args: Namespace) -> int:
    """Check one build, or all; StoreError lists what is damaged and how to rebuild it."""
    store = open_store(args)
    builds = [find_build(store, args.build)] if args.build else store.all_builds()
    faults = [(meta, fault) for meta in builds for fault in store.verify(meta)]
    if faults:
        lines = [f"{meta.stage}/{meta.key[:12]}: {fault}" for meta, fault in faults]
        stages = " ".join(f"--refresh {stage}" for stage in dict.fromkeys(meta.stage for meta, _ in faults))
        raise StoreError("\n".join(["damaged artifacts:", *lines, f"rebuild them: noisyir run EXPERIMENT {stages}"]))
    print(
        f"{len(builds)} builds, {sum(len(c.files) for m in builds for c in m.artifacts.values())} files: all as written"
    )
    return 0
