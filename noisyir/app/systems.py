"""Systems that can be asked: a model, BM25, or both together, by the names that a run's tables give them."""

from collections.abc import Callable
from dataclasses import dataclass

from noisyir.app.lookup import (
    Finished,
    Indexed,
    built,
    find_model,
    finished_comparison,
    finished_run,
    indexes,
    newest_index,
    runs_that_kept,
    terms_of,
)
from noisyir.base.errors import ConfigError, StoreError, did_you_mean
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import against, unusable
from noisyir.evaluation.recommendation import HYBRID, Recommendation, hybrid_of, model_of, recommendation
from noisyir.methods import experiments

BEST = "best"


@dataclass(frozen=True)
class System:
    """A system: its model, and the builds that searched with BM25 and combined the two; None for what it has not.

    kept: the model that its run kept, over whose newest documents BM25 alone is asked.
    against: why it should not be used, with the command that asks a better one.
    corpus: the documents that it searched in its run; None where it is named without one.
    """

    model: Ref | None = None
    bm25: Meta | None = None
    fused: Meta | None = None
    against: str | None = None
    kept: Ref | None = None
    corpus: Ref | None = None


def find_system(store: Store, name: str) -> System:
    """The system that `name` means: EXPERIMENT:SYSTEM, or a model as `find_model` knows it.

    SYSTEM is a row of the run's tables, `hybrid` (BM25 and the kept model) or `best` (the one that was recommended).
    StoreError where nothing has that name; ConfigError for a system that the run does not have or nobody can ask.
    """
    experiment, system = _parts(name)
    if system is None:
        model = find_model(store, name)
        kept = None if name.startswith("models:/") else _run_that_kept(store, model)
        return System(model, against=_against(store, kept[1], kept_by(kept[1]), kept[0], against) if kept else None)
    run = finished_comparison(store, experiment)
    scored = _scored(store, run)
    system = system_called(store, run, system, list(scored))
    made, kept_model = _searched(store, scored[system]), run.results.get("model")
    doubt = _against(store, run, system, experiments.name_of(experiment), against)
    if made.stage == "bm25":
        return System(bm25=made, against=doubt, kept=kept_model, corpus=_corpus_of(store, made))
    if made.stage == "search":
        found = _indexed(store, made)
        return System(found.model, against=doubt, kept=kept_model, corpus=found.corpus)
    if made.stage != "fuse":
        raise ConfigError("app.cannot_asked_ranks_another", name=name, experiment=experiment, best=BEST)
    lexical, dense = (store.builds.meta(dict(made.input_refs())[side]) for side in ("lexical", "dense"))
    found = _indexed(store, dense)
    return System(found.model, lexical, made, doubt, kept_model, found.corpus)


def _parts(name: str) -> tuple[str, str | None]:
    """The experiment and the system of a name; None where it names a model alone."""
    experiment, colon, system = name.rpartition(":")
    return (experiment, system) if colon and not name.startswith("models:/") else (name, None)


def system_called(store: Store, run: Finished, system: str, known: list[str]) -> str:
    """The system of the run's tables that is meant by its name, by `hybrid` or by `best`."""
    if system == HYBRID:
        system = hybrid_of(kept_by(run))
    if system == BEST and (found := of_run(store, run)) is not None:
        system = found.best
    if system in known:
        return system
    raise ConfigError(
        "app.run_no_system", system=system, did_you_mean=did_you_mean(system, known), known=", ".join(known)
    )


def of_run(store: Store, run: Finished) -> Recommendation | None:
    """The recommendation of a finished run; None where it made none."""
    if "standings" not in run.results:
        return None
    return recommendation([store.builds.table(run.results["standings"])], run.settings["compare"]["confidence"])


def model_to_export(store: Store, name: str) -> tuple[Ref, Finished | None]:
    """A model by its name or EXPERIMENT:SYSTEM, and the run that tells of it, as if it had kept this model.

    ConfigError for a system that has no model.
    """
    experiment, system = _parts(name)
    if system is None:
        model = find_model(store, name)
        runs = [finished_run(store, name, result) for result in ("comparison", "model")]  # rather one that measured it
        return model, next((run for run in runs if run and run.results.get("model") == model), None)
    if (model_of_it := find_system(store, name).model) is None:
        raise ConfigError("app.no_model_export_search", name=name)
    run = finished_comparison(store, experiment)
    scored = _scored(store, run)
    hybrid = hybrid_of(model_of(system_called(store, run, system, list(scored))))
    fused = {"fusion": _searched(store, scored[hybrid]).ref("fusion")} if hybrid in scored else {}
    return model_of_it, Finished(run.settings, {**run.results, "model": model_of_it, **fused})


def against_export(store: Store, name: str) -> str | None:
    """The case against a model that is worth using neither alone nor with BM25; None where nothing does."""
    experiment, system = _parts(name)
    if name.startswith("models:/"):
        return None
    if system is None:
        kept = _run_that_kept(store, find_model(store, name))
        return _against(store, kept[1], kept_by(kept[1]), kept[0], unusable) if kept else None
    run = finished_comparison(store, experiment)
    system = model_of(system_called(store, run, system, list(_scored(store, run))))
    return _against(store, run, system, experiments.name_of(experiment), unusable)


def kept_by(run: Finished) -> str:
    """The system whose model a run kept."""
    return str(run.settings.get("keep") or run.settings["methods"][-1]["kind"])


def _against(
    store: Store, run: Finished, system: str, experiment: str, said: Callable[[Recommendation, str, str], str | None]
) -> str | None:
    """The case against a system of a run; nothing where the run itself was forced."""
    found = of_run(store, run)
    return said(found, system, experiment) if found and run.settings.get("register_if") != "always" else None


def _run_that_kept(store: Store, model: Ref) -> tuple[str, Finished] | None:
    """The newest finished run that kept this model and recommended a system."""
    for run in runs_that_kept(store, model):
        if run["status"] == "done" and (made := built(store, run["steps"].get(run["kept"].get("standings")))):
            return str(run["experiment"]), Finished(run["settings"], {"standings": made.ref("standings")})
    return None


def _scored(store: Store, run: Finished) -> dict[str, Ref]:
    """The scoring of each system of a run."""
    refs = store.builds.meta(run.results["comparison"]).input_refs()
    return {label.removeprefix("metrics."): ref for label, ref in refs}


def _searched(store: Store, scored: Ref) -> Meta:
    """The build that ranked what was scored, before passages became documents again."""
    made = store.builds.meta(dict(store.builds.meta(scored).input_refs())["run"])
    return store.builds.meta(dict(made.input_refs())["run"]) if made.stage == "best_passages" else made


def _indexed(store: Store, search: Meta) -> Indexed:
    index = dict(search.input_refs())["index"]
    return next(found for found in indexes(store.builds.all()) if found.index.ref("index") == index)


def _corpus_of(store: Store, bm25: Meta) -> Ref:
    return dict(store.builds.meta(dict(bm25.input_refs())["lexical_index"]).input_refs())["corpus"]


@dataclass(frozen=True)
class Indexes:
    """The indexes that a system is asked with, and the corpus that they are of."""

    corpus: Ref
    vectors: Ref | None
    terms: Ref | None


def indexes_of(store: Store, system: System) -> Indexes:
    """The newest indexes of a system, refreshed or not.  StoreError where one of them is gone or not of the corpus."""
    if (model := system.model or system.kept) is None:
        assert system.bm25 is not None
        return Indexes(_corpus_of(store, system.bm25), None, dict(system.bm25.input_refs())["lexical_index"])
    newest = newest_index(store, model, lambda one: one.searched, system.corpus)
    vectors = newest.index.ref("index") if system.model else None
    if system.bm25 is None:
        return Indexes(newest.corpus, vectors, None)
    if (found := terms_of(store.builds.all(), newest.corpus)) is None:
        raise StoreError("app.bm_no_index_newest")
    return Indexes(newest.corpus, vectors, found.ref("lexical_index"))
