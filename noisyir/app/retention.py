"""Builds that may be deleted: those that nothing needs, and damaged ones with all that was made from damage."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from noisyir.app.lookup import indexes, terms_of
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
    """By folder, the builds that may go, each with the reason: nothing that must stay was made from it.

    What must stay: what the last `keep_runs` runs used, and runs that registered a model; of a run that has not ended
    every build of the keys in its plan, and so for a week of any that goes on elsewhere than on `host` as far as one
    can tell; the models of the registry, whatever a record says; the newest index of each registered model.  The last
    are by the order of names, which no clock that goes back can change.  StoreError where a record cannot be read.
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
    last_use = {(step["key"], step["build"]): _name(run) for run in reversed(runs) for step in run["steps"].values()}
    return {
        meta.folder: (meta, _why(last_use.get((meta.key, meta.build)), keep_runs))
        for meta in builds
        if meta.folder not in needed
    }


def deletable(store: Store, *, keep_runs: int, host: str) -> Iterator[tuple[Meta, str]]:
    """The same one by one, each asked about again just before where a run has begun meanwhile, on another machine."""
    runs, doomed = store.runs.ids(), unneeded(store, keep_runs=keep_runs, host=host)
    for folder, found in list(doomed.items()):
        if (now := store.runs.ids()) != runs:
            runs, doomed = now, unneeded(store, keep_runs=keep_runs, host=host)
        if folder in doomed:
            yield found


def keys_to_go_on_with(store: Store, *, keep_runs: int) -> set[str]:
    """Keys of the last runs that they have no build of: what was killed among them goes on from its checkpoints."""
    runs = store.runs.all()[:keep_runs]
    return {step["key"] for run in runs for step in run["steps"].values() if not step["build"]}


def _may_live_elsewhere(store: Store, run: Mapping[str, Any], host: str) -> bool:
    """Whether a run without an end goes on on another machine; for a week it may, where nobody here can ask it."""
    if run.get("status") != "running" or run.get("host") == host:
        return False
    if store.locks.everywhere and "id" in run:
        return store.locks.is_held(RUN_LOCK, run["id"])
    began = datetime.fromisoformat(run["began"]) if "began" in run else datetime.min.replace(tzinfo=UTC)
    return datetime.now(UTC) - began < _GIVEN_UP


def _name(run: Mapping[str, Any]) -> str:
    return str(run.get("id") or run.get("began") or "of unknown name")


def _why(last_run: str | None, keep_runs: int) -> str:
    if last_run is None:
        return "no recorded run used it, and no registered model needs it"
    return f"last used by run {last_run}, which is none of the last {keep_runs}; no registered model needs it"


def damaged(store: Store, builds: Sequence[Meta]) -> dict[str, str]:
    """By folder, why a build must go: it is damaged, or it was made from one that is, whose bytes nobody had checked.

    A build that checked its inputs when it opened them is as good as ever, unless these were such ones themselves.
    """
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
    """By path what is wrong in MLflow's database and its copies of registered models here; and these copies."""
    try:
        copies = [copy for copy in registered_copies(store.home) if not copy.is_whole]
    except ConfigError as error:
        return {str(store.home / "mlflow.db"): str(error)}, []
    return {str(copy.folder): f"{copy.version} has other bytes than were registered" for copy in copies}, copies


def mend_models(store: Store, copies: "Sequence[RegisteredCopy]") -> list[str]:
    """Put the store's bytes in place of damaged copies; for those that the store does not have, what brings them."""
    there = {found.digest: meta.ref(name) for meta in store.builds.all() for name, found in meta.artifacts.items()}
    cures = []
    for copy in copies:
        if (ref := there.get(copy.digest)) is None or not store.builds.is_whole(ref):
            cures.append(f"mend {copy.version}: noisyir run {copy.experiment}, then noisyir store verify --repair")
            continue
        arriving = copy.folder.with_name(f"{copy.folder.name}.arriving")
        shutil.rmtree(arriving, ignore_errors=True)
        shutil.copytree(store.builds.folder(ref), arriving)
        shutil.rmtree(copy.folder, ignore_errors=True)
        arriving.rename(copy.folder)
    return cures


def _taint(meta: Meta, tainted: set[str], doomed: Mapping[str, str]) -> list[str]:
    """The folders of tainted builds that this one was made from, or of damaged ones if it did not check them."""
    behind = {f"{ref.stage}/{ref.key}/{ref.build}" for _, ref in meta.input_refs()}
    return sorted(behind & tainted or (set() if meta.checked else behind & doomed.keys()))


def _searched(builds: Sequence[Meta], runs: Sequence[Mapping[str, Any]], digests: Collection[str]) -> list[Meta]:
    """The indexes that registered models are searched with: the newest of each, and BM25's of the same documents."""
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
