"""Systems that can be searched with, by their names in a run's tables: a model, BM25, or both together."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from noisyir.app.lookup import (
    Finished,
    Indexed,
    built,
    experiment_that_kept,
    find_model,
    finished_comparison,
    finished_run,
    indexes,
    newest_index,
    runs_that_kept,
    terms_of,
)
from noisyir.base.errors import ConfigError, StoreError, suggested
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import against, unusable
from noisyir.evaluation.recommendation import (
    HYBRID,
    Recommendation,
    hybrid_of,
    model_of,
    recommendation,
    scored_systems,
)
from noisyir.methods import experiments

BEST = "best"


@dataclass(frozen=True)
class System:
    """A system that can be searched with: a model, a BM25 search, or the fusion of both.

    Args:
        doubt: Reason not to use it, with the command that searches with a better system.
        kept: Model that its run kept; BM25 alone searches the newest documents of this model.
        corpus: Documents that its run searched.
    """

    model: Ref | None = None
    bm25: Meta | None = None
    fused: Meta | None = None
    doubt: str | None = None
    kept: Ref | None = None
    corpus: Ref | None = None

    @property
    def indexed(self) -> Ref | None:
        """The model with the index: of BM25 alone the one that its run kept."""
        return self.model or self.kept


@dataclass(frozen=True)
class Indexes:
    """Indexes of a system and their corpus."""

    corpus: Ref
    vectors: Ref | None
    terms: Ref | None


def find_system(store: Store, name: str) -> System:
    """The system called `name`: EXPERIMENT:SYSTEM, or a model's name as in `find_model`.

    SYSTEM is a row of the run's tables, `hybrid` (BM25 and the kept model) or `best` (the recommended one).

    Raises:
        StoreError: If nothing has this name.
        ConfigError: If the run has no such system, or the system cannot be searched with.
    """
    experiment, system = _parts(name)
    if system is None:
        model = find_model(store, name)
        kept = None if name.startswith("models:/") else _run_that_kept(store, model)
        return System(model, doubt=_doubt(store, kept[1], kept_by(kept[1]), kept[0], against) if kept else None)
    run = finished_comparison(store, experiment)
    scored = scored_systems(store, run.results["comparison"])
    system = system_called(store, run, system, list(scored))
    made, kept_model = _searched(store, scored[system]), run.results.get("model")
    doubt = _doubt(store, run, system, experiments.name_of(experiment), against)
    if made.stage == "bm25":
        return System(bm25=made, doubt=doubt, kept=kept_model, corpus=_corpus_of(store, made))
    if made.stage == "search":
        found = _indexed(store, made)
        return System(found.model, doubt=doubt, kept=kept_model, corpus=found.corpus)
    if made.stage != "fuse":
        raise ConfigError("app.not_searchable", name=name, experiment=experiment, best=BEST)
    lexical, dense = (store.builds.meta(dict(made.input_refs())[side]) for side in ("lexical", "dense"))
    found = _indexed(store, dense)
    return System(found.model, lexical, made, doubt, kept_model, found.corpus)


def first_searchable(store: Store, names: Sequence[str], model: Ref | None = None) -> str | None:
    """The first of these systems with which a search is not refused, of those on the index of `model` if given."""
    for name in names:
        with suppress(ConfigError, StoreError):
            found = find_system(store, name)
            if not found.doubt and model in (None, found.indexed):
                return name
    return None


def _parts(name: str) -> tuple[str, str | None]:
    """Split a name into experiment and system; the system is None for a model's name."""
    experiment, colon, system = name.rpartition(":")
    return (experiment, system) if colon and not name.startswith("models:/") else (name, None)


def system_called(store: Store, run: Finished, system: str, known: list[str]) -> str:
    """Resolve `hybrid`, `best` or a system's name to a row of the run's tables."""
    if system == HYBRID:
        system = hybrid_of(kept_by(run))
    if system == BEST and (found := of_run(store, run)) is not None:
        system = found.best
    if system in known:
        return system
    raise ConfigError("app.unknown_system", system=system, others=suggested(system, known, "it has"))


def hybrid_with(store: Store, system: System) -> System | None:
    """The system itself if it is a hybrid, else the hybrid of the run that kept its model, if there is one."""
    model = system.indexed
    if system.fused or model is None:
        return system
    experiment = experiment_that_kept(store, model)
    try:
        found = find_system(store, f"{experiment}:{HYBRID}") if experiment else None
    except (ConfigError, StoreError):
        return None
    return found if found and found.model == model else None


def path_of(name: str) -> str:
    """A model's name as part of a URL: without alias and system."""
    plain = experiments.name_of(name).removeprefix("models:/").partition("@")[0]
    return plain.partition(":")[0].replace("/", "-")


def of_run(store: Store, run: Finished) -> Recommendation | None:
    """The recommendation of a finished run, if it made one."""
    if "standings" not in run.results:
        return None
    return recommendation([store.builds.table(run.results["standings"])], run.settings["compare"]["confidence"])


def model_to_export(store: Store, name: str) -> tuple[Ref, Finished | None]:
    """A model by its name or EXPERIMENT:SYSTEM, with its run presented as if it had kept this model.

    Raises:
        ConfigError: If the system has no model.
    """
    experiment, system = _parts(name)
    if system is None:
        model = find_model(store, name)
        runs = [finished_run(store, name, result) for result in ("comparison", "model")]  # rather one that measured it
        return model, next((run for run in runs if run and run.results.get("model") == model), None)
    if (model_of_it := find_system(store, name).model) is None:
        raise ConfigError("app.system_without_model", name=name)
    run = finished_comparison(store, experiment)
    scored = scored_systems(store, run.results["comparison"])
    hybrid = hybrid_of(model_of(system_called(store, run, system, list(scored))))
    fused = {"fusion": _searched(store, scored[hybrid]).ref("fusion")} if hybrid in scored else {}
    return model_of_it, Finished(run.settings, {**run.results, "model": model_of_it, **fused})


def against_export(store: Store, name: str) -> str | None:
    """The reason not to export a model that is worth using neither alone nor with BM25."""
    experiment, system = _parts(name)
    if name.startswith("models:/"):
        return None
    if system is None:
        kept = _run_that_kept(store, find_model(store, name))
        return _doubt(store, kept[1], kept_by(kept[1]), kept[0], unusable) if kept else None
    run = finished_comparison(store, experiment)
    scored = scored_systems(store, run.results["comparison"])
    system = model_of(system_called(store, run, system, list(scored)))
    return _doubt(store, run, system, experiments.name_of(experiment), unusable)


def kept_by(run: Finished) -> str:
    """Name of the system that a run kept."""
    return str(run.settings.get("keep") or run.settings["methods"][-1]["kind"])


def _doubt(
    store: Store, run: Finished, system: str, experiment: str, said: Callable[[Recommendation, str, str], str | None]
) -> str | None:
    """The reason not to use a system of a run; None if the run was forced."""
    found = of_run(store, run)
    return said(found, system, experiment) if found and run.settings.get("register_if") != "always" else None


def _run_that_kept(store: Store, model: Ref) -> tuple[str, Finished] | None:
    """The newest finished run that kept this model and recommended a system."""
    for run in runs_that_kept(store, model):
        if run["status"] == "done" and (made := built(store, run["steps"].get(run["kept"].get("standings")))):
            return str(run["experiment"]), Finished(run["settings"], {"standings": made.ref("standings")})
    return None


def _searched(store: Store, scored: Ref) -> Meta:
    """The ranking behind a scoring, before passages are merged into documents."""
    made = store.builds.meta(dict(store.builds.meta(scored).input_refs())["run"])
    return store.builds.meta(dict(made.input_refs())["run"]) if made.stage == "best_passages" else made


def _indexed(store: Store, search: Meta) -> Indexed:
    index = dict(search.input_refs())["index"]
    return next(found for found in indexes(store.builds.all()) if found.index.ref("index") == index)


def _corpus_of(store: Store, bm25: Meta) -> Ref:
    return dict(store.builds.meta(dict(bm25.input_refs())["lexical_index"]).input_refs())["corpus"]


def indexes_of(store: Store, system: System) -> Indexes:
    """The newest indexes of a system, refreshed or not.

    Raises:
        StoreError: If an index is gone or belongs to another corpus.
    """
    if (model := system.indexed) is None:
        assert system.bm25 is not None
        return Indexes(_corpus_of(store, system.bm25), None, dict(system.bm25.input_refs())["lexical_index"])
    newest = newest_index(store, model, lambda one: one.searched, system.corpus)
    vectors = newest.index.ref("index") if system.model else None
    if system.bm25 is None:
        return Indexes(newest.corpus, vectors, None)
    if (found := terms_of(store.builds.all(), newest.corpus)) is None:
        raise StoreError("app.bm25_without_index")
    return Indexes(newest.corpus, vectors, found.ref("lexical_index"))
