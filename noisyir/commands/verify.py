"""`noisyir verify`: compare every stored file with the digest written when it was published."""

from typing import Annotated

from noisyir.commands import StoreUrl, argument, open_store
from noisyir.errors import StoreError


def run(build: Annotated[str | None, argument("BUILD", "only this build")] = None, store: StoreUrl = None) -> int:
    """Check the digest of every stored file.

    Lists what is damaged, and how to rebuild it.

    example: noisyir verify
    """
    from noisyir.app.lookup import find_build

    opened = open_store(store)
    builds = [find_build(opened, build)] if build else opened.all_builds()
    faults = [(meta, fault) for meta in builds for fault in opened.verify(meta)]
    if faults:
        lines = [f"{meta.stage}/{meta.key[:12]}: {fault}" for meta, fault in faults]
        stages = " ".join(f"--refresh {stage}" for stage in dict.fromkeys(meta.stage for meta, _ in faults))
        raise StoreError("\n".join(["damaged artifacts:", *lines, f"rebuild them: noisyir run EXPERIMENT {stages}"]))
    files = sum(len(contents.files) for meta in builds for contents in meta.artifacts.values())
    print(f"{len(builds)} builds, {files} files: all as written")
    return 0
