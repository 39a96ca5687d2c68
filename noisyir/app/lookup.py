"""Look-up of names on the command line: a stage, an experiment, a key or a registered model."""

import logging
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from noisyir.base.errors import StoreError
from noisyir.data.stages.join_corpus import JOIN_CORPUS
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.store import Store
from noisyir.methods import experiments

log = logging.getLogger("noisyir")
_ELSEWHERE = " (nothing has run in this store: change to the folder of the run, or name its store by --store)"


def find_build(store: Store, name: str) -> Meta:
    """The build called `name`: a stage or a step (newest build), the start of a key, or an experiment (its model).

    Raises:
        StoreError: If nothing, or more than one key, matches.
    """
    builds = store.builds.all()
    if of_stage := [meta for meta in builds if meta.stage == name]:
        return of_stage[-1]
    of_step = (built(store, run["steps"].get(name)) for run in store.runs.all())
    if made := kept_by_run(store, name, "model") or next(filter(None, of_step), None):
        return made
    with_key = {meta.key: meta for meta in builds if meta.key.startswith(name.split("/")[-1])}
    if len(with_key) == 1:
        return next(iter(with_key.values()))
    found = f"{len(with_key)} builds" if with_key else "no experiment that has run, no stage and no key"
    raise StoreError("app.no_single_build", name=name, found=found, url=store.url, runs_of=runs_of(store, name))


def runs_of(store: Store, name: str, result: str = "model") -> str:
    """Explain a missing result: by the state of the experiment's last run, else by naming other experiments."""
    runs, wanted = list(store.runs.all()), experiments.name_of(name)
    if mine := [run for run in runs if run["experiment"] == wanted]:
        if mine[0]["status"] == "done" and "audit" in (kept := mine[0].get("kept") or {}) and "model" not in kept:
            return " (it was audited and never trained: noisyir init FILE writes an experiment to run)"
        if mine[0]["status"] == "done" and result in kept:
            lost = kept[result] in mine[0]["steps"]
            why = "'s results are damaged or gone" if lost else f" stopped before the step that makes its {result}"
            return f" (its last run{why}: {whole_command(store, name)} makes {'them again' if lost else 'it'})"
        return f" (its last run is {mine[0]['status']} and made no {result}: noisyir status)"
    done = dict.fromkeys(run["experiment"] for run in runs if run["status"] == "done")
    return f" (experiments that have run: {', '.join(done)})" if done else _ELSEWHERE


def find_model(store: Store, name: str) -> Ref:
    """The model called `name`, as in `find_build`, or registered as `models:/NAME@ALIAS` or `/VERSION`."""
    if name.startswith("models:/"):
        return _registered_model(store, name)
    meta = find_build(store, name)
    if "model" not in meta.artifacts:
        raise StoreError("app.build_without_model", name=name, stage=meta.stage)
    return meta.ref("model")


def _registered_model(store: Store, uri: str) -> Ref:
    """The artifact with the bytes of a registered retriever."""
    from noisyir.registry.backend import connect
    from noisyir.registry.registry import find_version

    found = find_version(connect(store.home), uri)
    tags, what = found.tags, f"{uri} is {found.name} v{found.version}"
    if (ref := artifact_of(store, tags["artifact_digest"])) is not None:
        if ref.artifact != "model":
            raise StoreError("app.not_a_retriever", what=what, artifact=ref.artifact)
        return ref
    key, command = tags["artifact_key"][:12], command_of_version(store, tags)
    raise StoreError("app.artifact_gone", what=what, artifact_key=key, url=store.url, command=command, uri=uri)


def artifact_of(store: Store, digest: str | None) -> Ref | None:
    """The oldest artifact with these bytes, if the store has one."""
    every = ((meta, name) for meta in store.builds.all() for name in meta.artifacts)
    return next((meta.ref(name) for meta, name in every if meta.artifacts[name].digest == digest), None)


@dataclass(frozen=True)
class Indexed:
    """An index of documents and its vectors."""

    index: Meta
    vectors: Meta

    @property
    def corpus(self) -> Ref:
        """The corpus with the rows that the index counts."""
        return dict(self.vectors.input_refs())["corpus"]

    @property
    def model(self) -> Ref:
        """The model that made the vectors."""
        return dict(self.vectors.input_refs())["model"]

    @property
    def searched(self) -> list[Ref]:
        """The artifacts that a search reads."""
        return [self.index.ref("index"), self.corpus]

    @property
    def built_upon(self) -> list[Ref]:
        """The artifacts that a refresh reads."""
        return [*self.searched, self.vectors.ref("doc_vectors")]


def indexes(builds: Sequence[Meta]) -> Iterator[Indexed]:
    """Indexes with vectors among these builds (oldest first), the newest first."""
    by_name = {(meta.stage, meta.key, meta.build): meta for meta in builds}
    for index in reversed(builds):
        of = dict(index.input_refs()).get("doc_vectors") if "index" in index.artifacts else None
        if of and (vectors := by_name.get((of.stage, of.key, of.build))):
            yield Indexed(index, vectors)


def newest_index(
    store: Store,
    model: Ref,
    needed: Callable[[Indexed], list[Ref]] = lambda one: one.built_upon,
    corpus: Ref | None = None,
) -> Indexed:
    """The newest undamaged index of a model's vectors, refreshed or not, with a warning for each damaged one skipped.

    The oldest is returned unchecked: its readers report damage.

    Args:
        needed: Artifacts that must be whole.
        corpus: Documents of the index before refreshes; None: the corpus of the run that kept the model.

    Raises:
        StoreError: If the model was not indexed.
    """
    builds = store.builds.all()
    found = [indexed for indexed in indexes(builds) if indexed.model.digest == model.digest]
    if corpus := corpus or _corpus_behind(store, model, found):
        found = [indexed for indexed in found if _is_grown(builds, indexed.corpus, corpus)]
    if not found:
        raise StoreError("app.model_without_index", key=model.key[:12], url=store.url)
    for number, indexed in enumerate(found[:-1], start=1):
        lost = [ref for ref in needed(indexed) if not store.builds.is_whole(ref)]
        if not lost:
            return indexed
        when, before = (one.index.created[:16].replace("T", " ") for one in (indexed, found[number]))
        log.warning(
            "the %s of the index of %s UTC is damaged or gone, so the one of %s is taken. To have it again: %s",
            " and ".join(ref.artifact for ref in lost),
            when,
            before,
            command_for(store, indexed.index.folder) or "run what made it",
        )
    return found[-1]


def _corpus_behind(store: Store, model: Ref, found: Sequence[Indexed]) -> Ref | None:
    """Documents indexed by the newest run that kept the model, if a record says so."""
    run = next(runs_that_kept(store, model), None)
    folders = folders_of(run) if run else set()
    return next((indexed.corpus for indexed in found if indexed.index.folder in folders), None)


def _is_grown(builds: Sequence[Meta], corpus: Ref, start: Ref) -> bool:
    """Whether refreshes turned `start` into `corpus`; also true if a build between them is gone."""
    while corpus.digest != start.digest and corpus.stage == JOIN_CORPUS.name:
        of = (meta for meta in builds if (meta.stage, meta.key, meta.build) == (corpus.stage, corpus.key, corpus.build))
        if (joined := next(of, None)) is None:
            return True
        corpus = dict(joined.input_refs())["corpus"]
    return corpus.digest == start.digest


def command_for(store: Store, folder: str) -> str | None:
    """The command of the newest run that used a build."""
    run = next((run for run in store.runs.all() if folder in folders_of(run)), None)
    return str(run.get("command") or f"noisyir run {run['experiment']}") if run else None


def whole_command(store: Store, name: str) -> str:
    """The command that runs an experiment to its end, as last typed or by its name."""
    for run in store.runs.all():
        line = run.get("command") or ""
        if run["experiment"] == experiments.name_of(name) and line.startswith("noisyir run "):
            return re.sub(r" --(to|only)[= ]\S+", "", line)
    return f"noisyir run {shlex.quote(experiments.file_here(name) or name)}"


def command_of_version(store: Store, tags: Mapping[str, str]) -> str:
    """The command that made a registered version, or else its experiment's with its seed."""
    if "command" in tags:
        return tags["command"]
    command = re.sub(r" seed=\S+", "", whole_command(store, tags.get("run_as", tags.get("experiment", "EXPERIMENT"))))
    return f"{command} seed={tags['seed']}" if "seed" in tags else command


def folders_of(run: Mapping[str, Any]) -> set[str]:
    """Folders of a run's builds."""
    return {f"{step['stage']}/{step['key']}/{step['build']}" for step in run["steps"].values()}


def terms_of(builds: Sequence[Meta], corpus: Ref) -> Meta | None:
    """The newest BM25 index of a corpus among these builds (oldest first)."""
    found = (meta for meta in reversed(builds) if "lexical_index" in meta.artifacts)
    return next((meta for meta in found if dict(meta.input_refs())["corpus"].digest == corpus.digest), None)


def experiment_that_kept(store: Store, model: Ref) -> str | None:
    """Name of the experiment that kept this model last, if a record says so."""
    return next((str(run["experiment"]) for run in runs_that_kept(store, model)), None)


def runs_that_kept(store: Store, model: Ref) -> Iterator[dict[str, Any]]:
    """Records of runs that kept this model, newest first."""
    trained = ((run, run["steps"].get(run.get("kept", {}).get("model"))) for run in store.runs.all())
    return (run for run, step in trained if step and (step["key"], step["build"]) == (model.key, model.build))


@dataclass(frozen=True)
class Finished:
    """A finished run: its recorded settings, the artifacts that it kept, and its record's steps."""

    settings: dict[str, Any]
    results: dict[str, Ref]
    steps: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def finished_run(store: Store, name: str, result: str) -> Finished | None:
    """The newest finished run of an experiment with this result, if there is one."""
    return next(finished_runs(store, name, result), None)


def finished_runs(store: Store, name: str, result: str) -> Iterator[Finished]:
    """Finished runs of an experiment with this result, newest first, with a warning if a newer one's is gone."""
    experiment, lost = experiments.name_of(name), ""
    for run in store.runs.all():
        if run["experiment"] == experiment and run["status"] == "done":
            kept = run.get("kept", {"model": "warm_up"})  # the only trainer when records did not name the kept ones
            made = {artifact: built(store, run["steps"].get(step)) for artifact, step in kept.items()}
            if made.get(result):
                if lost:
                    _warn_of_lost(result, experiment, lost)
                lost = ""
                refs = {name: meta.ref(name) for name, meta in made.items() if meta and name in meta.artifacts}
                yield Finished(run["settings"], refs, run["steps"])
            elif (run["steps"].get(kept.get(result)) or {}).get("build"):
                lost = lost or str(run.get("command") or f"noisyir run {experiment}")


@cache
def _warn_of_lost(result: str, experiment: str, command: str) -> None:
    log.warning("the %s of the newest run of %s is gone, so an older one is taken. To have it again: %s",
                result, experiment, command)  # fmt: skip


def finished_comparison(store: Store, name: str) -> Finished:
    """The newest finished run of an experiment that compared systems.

    Raises:
        StoreError: If there is none.
    """
    if (run := finished_run(store, name, "comparison")) is None:
        hint, command = runs_of(store, name, "comparison"), whole_command(store, name)
        unknown = command == f"noisyir run {shlex.quote(name)}" and name not in experiments.names()
        cure = "" if unknown or command in hint else f": {command}"
        raise StoreError("app.no_comparison", name=name, url=store.url, hint=hint, cure=cure)
    return run


def built(store: Store, step: dict[str, Any] | None) -> Meta | None:
    """The build named in a run's record, if the store still has it."""
    if not step or not step["build"]:
        return None
    return next((meta for meta in store.builds.of_key(step["stage"], step["key"]) if meta.build == step["build"]), None)


def kept_by_run(store: Store, name: str, result: str) -> Meta | None:
    """The build kept as this result by the newest finished run that has it."""
    run = finished_run(store, name, result)
    return store.builds.meta(run.results[result]) if run else None
