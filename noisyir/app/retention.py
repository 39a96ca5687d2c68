"""What may be deleted: builds that nothing needs, and those that are damaged with all that was made from damage."""

from collections.abc import Mapping, Sequence
from typing import Any

from noisyir.app.lookup import indexes
from noisyir.engine.builds import Meta
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store


def unneeded(store: Store, *, keep_runs: int) -> list[Meta]:
    """Builds that neither the last `keep_runs` runs nor a run that registered a model used, directly or by inputs.

    A registered model also keeps its newest index.  A run that has not finished keeps every build of the keys in its
    plan.
    """
    builds, runs = store.all_builds(), store.runs()
    kept: dict[str, Meta] = {}
    for number, run in enumerate(runs):
        if number < keep_runs or "registered" in run["facts"]:
            wanted = {(step["key"], step["build"]) for step in run["steps"].values()}
            kept |= {m.build: m for m in builds if (m.key, m.build) in wanted or (m.key, None) in wanted}
    kept |= {meta.build: meta for meta in _searched(builds, runs)}
    refs = [meta.ref(artifact) for meta in kept.values() for artifact in meta.artifacts]
    needed = {(meta.key, meta.build) for meta in lineage(store, refs, gone=lambda _: None)}
    return [meta for meta in builds if (meta.key, meta.build) not in needed]


def damaged(store: Store, builds: Sequence[Meta]) -> dict[str, str]:
    """By folder, why a build must go: it is damaged, or it was made from one that is, whose bytes nobody had checked.

    A build that checked its inputs when it opened them is as good as ever, unless these were such ones themselves.
    """
    doomed = dict(store.damaged_metas())
    for meta in builds:
        if faults := store.verify(meta):
            doomed[meta.folder] = "; ".join(f"{name} {fault}" for name, fault in faults.items())
    tainted = set[str]()
    for meta in store.all_builds():  # oldest first: nothing is older than what it was made from
        behind = {f"{ref.stage}/{ref.key}/{ref.build}" for _, ref in meta.input_refs()}
        if taint := sorted(behind & tainted or (set() if meta.checked else behind & doomed.keys())):
            tainted.add(meta.folder)
            doomed.setdefault(meta.folder, f"was made from {taint[0]}")
    return doomed


def _searched(builds: Sequence[Meta], runs: Sequence[Mapping[str, Any]]) -> list[Meta]:
    """The indexes that the registered models are searched with: the newest of each, which may be a refreshed one."""
    registered = {
        (step["key"], step["build"])
        for run in runs
        if "registered" in run["facts"] and (step := run["steps"].get(run.get("kept", {}).get("model")))
    }
    newest: dict[str, Meta] = {}
    for found in indexes(builds):
        if (found.model.key, found.model.build) in registered:
            newest.setdefault(found.model.digest, found.index)
    return list(newest.values())
