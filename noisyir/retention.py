"""Which builds may be deleted: those that no recent run used, no registered model was made from, no run is making."""

from noisyir.builds import Meta
from noisyir.provenance import lineage
from noisyir.store import Store


def unneeded(store: Store, *, keep_runs: int) -> list[Meta]:
    """Builds that neither the last `keep_runs` runs nor a run that registered a model used, directly or by inputs.

    A run that has not finished keeps every build of the keys in its plan.
    """
    builds = store.all_builds()
    kept: dict[str, Meta] = {}
    for number, run in enumerate(store.runs()):
        if number < keep_runs or "registered" in run["facts"]:
            wanted = {(step["key"], step["build"]) for step in run["steps"].values()}
            kept |= {m.build: m for m in builds if (m.key, m.build) in wanted or (m.key, None) in wanted}
    refs = [meta.ref(artifact) for meta in kept.values() for artifact in meta.artifacts]
    needed = {(meta.key, meta.build) for meta in lineage(store, refs)}
    return [meta for meta in builds if (meta.key, meta.build) not in needed]
