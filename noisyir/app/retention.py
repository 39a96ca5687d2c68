"""Builds that may be deleted: unneeded ones, and damaged ones with everything made from them."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from noisyir.app.lookup import command_of_version, indexes, terms_of
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.meta import Meta
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from noisyir.engine.store_locks import RUN_LOCK
from noisyir.registry import registered_copies, registered_digests

if TYPE_CHECKING:
    from noisyir.registry.registry import RegisteredCopy

_GIVEN_UP = timedelta(days=7)  # after which a run of another machine that never ended is taken for dead


def unneeded(store: Store, *, keep_runs: int, host: str) -> dict[str, tuple[Meta, str]]:
    """Builds that may be deleted, by folder, each with the reason.

    Kept are builds behind the last `keep_runs` runs, runs that registered a model, runs that may still be at work
    elsewhere than on `host` (for a week), registered models, their newest indexes, and fetched sets.

    Raises:
        StoreError: If a record cannot be read.
    """
    if unread := store.damaged_records():
        path, fault = next(iter(unread.items()))
        raise StoreError("app.unreadable_record", path=path, fault=fault)
    builds, runs = store.builds.all(), store.runs.all()
    kept: dict[str, Meta] = {}
    for number, run in enumerate(runs):
        if number < keep_runs or "registered" in run["facts"] or _may_live_elsewhere(store, run, host):
            wanted = {(step["key"], step["build"]) for step in run["steps"].values()}
            kept |= {m.folder: m for m in builds if (m.key, m.build) in wanted or (m.key, None) in wanted}
    digests = registered_digests(store.home)
    kept |= {m.folder: m for m in builds if digests & {contents.digest for contents in m.artifacts.values()}}
    kept |= {meta.folder: meta for meta in _searched(builds, runs, digests)}
    kept |= {meta.folder: meta for meta in store.fetched.newest()}
    refs = [meta.ref(artifact) for meta in kept.values() for artifact in meta.artifacts]
    needed = {meta.folder for meta in lineage(store, refs, gone=lambda _: None)}
    names = [(str(run.get("id") or run.get("began") or "of unknown name"), run["steps"]) for run in reversed(runs)]
    last_use = {(step["key"], step["build"]): name for name, steps in names for step in steps.values()}
    return {
        meta.folder: (meta, _why(last_use.get((meta.key, meta.build)), keep_runs))
        for meta in builds
        if meta.folder not in needed
    }


def deletable(store: Store, *, keep_runs: int, host: str) -> Iterator[tuple[Meta, str]]:
    """Yield unneeded builds, checked again whenever another run has begun."""
    runs, doomed = store.runs.ids(), unneeded(store, keep_runs=keep_runs, host=host)
    for folder, found in list(doomed.items()):
        if (begun := store.runs.ids()) != runs:
            runs, doomed = begun, unneeded(store, keep_runs=keep_runs, host=host)
        if folder in doomed:
            yield found


def keys_to_go_on_with(store: Store, *, keep_runs: int) -> set[str]:
    """Keys without a build in the last runs: killed ones continue from checkpoints."""
    runs = store.runs.all()[:keep_runs]
    return {step["key"] for run in runs for step in run["steps"].values() if not step["build"]}


def _may_live_elsewhere(store: Store, run: Mapping[str, Any], host: str) -> bool:
    """Whether an unfinished run may be at work on another machine, for a week if unknown."""
    if run.get("status") != "running" or run.get("host") == host:
        return False
    if store.locks.everywhere and "id" in run:
        return store.locks.is_held(RUN_LOCK, run["id"])
    began = datetime.fromisoformat(run["began"]) if "began" in run else datetime.min.replace(tzinfo=UTC)
    return datetime.now(UTC) - began < _GIVEN_UP


def _why(last_run: str | None, keep_runs: int) -> str:
    if last_run is None:
        return "no recorded run used it, and no registered model needs it"
    return f"last used by run {last_run}, which is none of the last {keep_runs}; no registered model needs it"


def damaged(store: Store, builds: Sequence[Meta]) -> dict[str, str]:
    """Faults of damaged builds by folder, and of builds made from unchecked damaged ones."""
    doomed = dict(store.builds.damaged())
    for meta in builds:
        if faults := store.builds.verify(meta):
            doomed[meta.folder] = "; ".join(f"{name} {fault}" for name, fault in faults.items())
    tainted, left = set[str](), store.builds.all()
    while True:  # names may sort otherwise than builds were made, because clocks go back
        found = {meta.folder: taint for meta in left if (taint := _taint(meta, tainted, doomed))}
        if not found:
            return doomed
        for folder, taint in found.items():
            doomed.setdefault(folder, f"rests on {taint[0]}")
        tainted |= found.keys()
        left = [meta for meta in left if meta.folder not in found]


def damaged_models(store: Store) -> tuple[dict[str, str], "list[RegisteredCopy]"]:
    """Faults of MLflow's database and of local copies of registered models by path, and these copies."""
    try:
        copies = [copy for copy in registered_copies(store.home) if not copy.is_whole]
    except ConfigError as error:
        return {str(store.home / "mlflow.db"): str(error)}, []
    return {str(copy.folder): f"{copy.version} has other bytes than were registered" for copy in copies}, copies


def mend_models(store: Store, copies: "Sequence[RegisteredCopy]") -> list[str]:
    """Replace damaged copies with the store's bytes, and return commands for copies that the store lacks."""
    there = {found.digest: meta.ref(name) for meta in store.builds.all() for name, found in meta.artifacts.items()}
    cures = []
    for copy in copies:
        if (ref := there.get(copy.digest)) is None or not store.builds.is_whole(ref):
            command = command_of_version(store, copy.tags)
            cures.append(f"mend {copy.version}: {command}, then noisyir store verify --repair")
            continue
        arriving = copy.folder.with_name(f"{copy.folder.name}.arriving")
        shutil.rmtree(arriving, ignore_errors=True)
        shutil.copytree(store.builds.folder(ref), arriving)
        shutil.rmtree(copy.folder, ignore_errors=True)
        arriving.rename(copy.folder)
    return cures


def _taint(meta: Meta, tainted: set[str], doomed: Mapping[str, str]) -> list[str]:
    """Folders of tainted inputs, or of damaged ones if the build did not check its inputs."""
    behind = {f"{ref.stage}/{ref.key}/{ref.build}" for _, ref in meta.input_refs()}
    return sorted(behind & tainted or (set() if meta.checked else behind & doomed.keys()))


def _searched(builds: Sequence[Meta], runs: Sequence[Mapping[str, Any]], digests: Collection[str]) -> list[Meta]:
    """The newest index of each registered model, and the BM25 index of the same documents."""
    registered = {
        (step["key"], step["build"])
        for run in runs
        if "registered" in run["facts"] and (step := run["steps"].get(run.get("kept", {}).get("model")))
    }
    newest: dict[str, Meta] = {}
    terms: list[Meta] = []
    for found in indexes(builds):
        if (found.model.key, found.model.build) in registered or found.model.digest in digests:
            if newest.setdefault(found.model.digest, found.index) is found.index:
                terms += [made for made in [terms_of(builds, found.corpus)] if made]
    return [*newest.values(), *terms]
