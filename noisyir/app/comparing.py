"""Two systems compared query by query: differences, tests, and the queries that change most."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.lookup import Finished, finished_comparison, finished_run, finished_runs
from noisyir.app.systems import BEST, system_called
from noisyir.base.errors import ConfigError, DataError, StoreError, suggested
from noisyir.data.dataset_page import snippet
from noisyir.engine.meta import Ref
from noisyir.engine.store import Store
from noisyir.evaluation.comparison import OfMeasures, values_of, without_promotion
from noisyir.evaluation.pages.duel import Duel, MeasureDifference, RankedDocument, Shift
from noisyir.evaluation.pages.queries import Change, largest_changes
from noisyir.evaluation.recommendation import HYBRID, scored_systems
from noisyir.evaluation.significance import crossed_t_test, holm
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import recorded_experiment
from noisyir.registry.evaluation import Evaluation, eval_digest, read_evaluation, recipe, system_of
from noisyir.retrieval.texts import passages_of


@dataclass(frozen=True)
class Contestant:
    """One system of an experiment with its scoring under each seed."""

    name: str
    scored: Mapping[int, Ref]
    store: Store

    @cached_property
    def values(self) -> dict[int, OfMeasures]:
        """The values by seed."""
        tables = {seed: self.store.builds.table(ref) for seed, ref in self.scored.items()}
        return {seed: values_of(without_promotion(table)) for seed, table in tables.items()}

    def given(self, name: str) -> Ref:
        """An input of the scoring under the first seed: run, qrels, queries, corpus."""
        first = next(iter(self.scored.values()))
        return dict(self.store.builds.meta(first).input_refs())[name]


def duel(store: Store, one: str, other: str, *, count: int = 5) -> Duel:
    """Compare two systems, each an experiment or EXPERIMENT:SYSTEM, with `count` queries of each kind.

    Raises:
        ConfigError: If a system was not run.
        DataError: If the two were not scored by the same judgements.
    """
    _refuse_bare_systems(store, one, other)
    first, second = contestant(store, one), contestant(store, other)
    if first.scored == second.scored:
        floor = next(name for name in ("bm25", "zero_shot") if not one.endswith(f":{name}"))
        raise ConfigError("app.same_system", one=one, other=other, split=one.split(":")[0], floor=floor)
    metas = [store.builds.meta(next(iter(side.scored.values()))) for side in (first, second)]
    if len({eval_digest(meta) for meta in metas}) > 1:
        raise DataError("app.other_scoring", first=first.name, second=second.name)
    seeds = list(zip(*_paired(list(first.scored), list(second.scored)), strict=True))
    measured = _measured(first, second, seeds)
    wins, losses = _shifts(store, first, second, seeds, measured[0], count)
    return Duel(first.name, second.name, [list(pair) for pair in seeds], measured, wins, losses)


def _refuse_bare_systems(store: Store, *names: str) -> None:
    """Refuse the name of the other experiment's system in place of an experiment.

    Raises:
        ConfigError: If a name is such a system, with the intended command.
    """
    run = {name: finished_run(store, name.partition(":")[0], "comparison") for name in names}
    for mine, theirs in (names, names[::-1]):
        if ":" in mine or run[mine] is not None or (found := run[theirs]) is None:
            continue
        if mine in scored_systems(store, found.results["comparison"]):
            full = f"{theirs.partition(':')[0]}:{mine}"
            meant = shlex.join(["noisyir", "compare", *(full if name == mine else name for name in names)])
            raise ConfigError("app.bare_system", mine=mine, theirs=theirs, meant=meant)


def contestant(store: Store, name: str) -> Contestant:
    """A system by its name, with scorings under all seeds of equal settings; an experiment means its kept model."""
    experiment, _, system = name.partition(":")
    newest = finished_comparison(store, experiment)
    evaluation = read_evaluation(store, newest.results["comparison"])
    model = newest.results.get("model")
    if system in (HYBRID, BEST):
        system = system_called(store, newest, system, list(evaluation.scored))
    system = system or (model and system_of(store, evaluation, model)) or list(evaluation.scored)[-1]
    if system not in evaluation.scored:
        others = suggested(system, evaluation.scored, "it has")
        raise ConfigError("app.no_such_system", experiment=experiment, system=system, others=others)
    label = f"{experiments.name_of(experiment)}:{system}"
    return Contestant(label, dict(_of_seeds(store, experiment, newest, evaluation, system)), store)


def _of_seeds(
    store: Store, experiment: str, newest: Finished, evaluation: Evaluation, system: str
) -> Iterator[tuple[int, Ref]]:
    """(seed, scoring) of the newest run of each seed with equal settings, newest first."""
    if (settings := recorded_experiment(newest.settings)) is None:
        raise StoreError("app.run_of_other_version", experiment=experiment)
    yield settings.seed, evaluation.scored[system]
    met, made = {settings.seed}, recipe(settings, store, newest.results["comparison"])
    for run in finished_runs(store, experiment, "comparison"):
        exp = recorded_experiment(run.settings)
        found = scored_systems(store, run.results["comparison"]).get(system)
        if exp and exp.seed not in met and found and recipe(exp, store, run.results["comparison"]) == made:
            met.add(exp.seed)
            yield exp.seed, found


def _paired(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """Pair the seeds of both sides: equal ones together, the others in order."""
    both = [seed for seed in one if seed in other]
    rest = [[seed for seed in side if seed not in both] for side in (one, other)]
    few = min(map(len, rest))
    return both + rest[0][:few], both + rest[1][:few]


def _measured(one: Contestant, other: Contestant, seeds: Sequence[tuple[int, int]]) -> list[MeasureDifference]:
    """Means, difference, test, wins and losses for each measure and split."""
    found = []
    for (split, measure), first in one.values[seeds[0][0]].items():
        sides = [
            np.stack([side.values[pair[place]][split, measure].values for pair in seeds], axis=1)
            for place, side in enumerate((one, other))
        ]
        gains, test = (sides[1] - sides[0]).mean(axis=1), crossed_t_test(sides[1] - sides[0], first.groups)
        wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
        means = float(sides[0].mean()), float(sides[1].mean())
        found.append(
            MeasureDifference(measure, split, *means, *test, p_holm=1.0, wins=wins, losses=losses, queries=len(gains))
        )
    corrected = holm(np.array([row.p_value for row in found]))
    return [MeasureDifference(**{**asdict(row), "p_holm": float(p)}) for row, p in zip(found, corrected, strict=True)]


def _shifts(
    store: Store,
    one: Contestant,
    other: Contestant,
    seeds: Sequence[tuple[int, int]],
    first: MeasureDifference,
    count: int,
) -> tuple[list[Shift], list[Shift]]:
    """Queries that gain most and lose most on the first measure under the first seeds."""
    sides = {one.name: (one, seeds[0][0]), other.name: (other, seeds[0][1])}
    inputs = {name: side.store.builds.meta(side.scored[seed]).input_refs() for name, (side, seed) in sides.items()}
    runs = {name: store.builds.table(dict(refs)["run"]) for name, refs in inputs.items()}
    values = {name: side.values[seed][first.split, first.measure].by_query for name, (side, seed) in sides.items()}
    qrels = store.builds.table(one.given("qrels"))
    changes = largest_changes(values, runs, qrels, system=other.name, baseline=one.name, count=count)
    heads = {name: _heads(run, [change.query_id for change in changes.all()]) for name, run in runs.items()}
    shown = [change.doc_id for change in changes.all() if change.doc_id] + [
        d for h in heads.values() for d in h.values()
    ]
    asked, texts = shown_texts(store, one, shown)

    def document(doc_id: str | None) -> RankedDocument | None:
        return None if doc_id is None else RankedDocument(doc_id, snippet(texts.get(doc_id, "")))

    def shift(change: Change) -> Shift:
        first_top, second_top = (document(heads[name].get(change.query_id)) for name in sides)
        first_value, second_value = (values[name][change.query_id] for name in sides)
        first_rank, second_rank = change.ranks or (None, None)
        return Shift(
            change.query_id,
            asked[change.query_id],
            first_value,
            second_value,
            document(change.doc_id),
            first_rank,
            second_rank,
            first_top,
            second_top,
        )

    return [shift(change) for change in changes.wins], [shift(change) for change in changes.losses]


def shown_texts(store: Store, side: Contestant, doc_ids: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of all queries, and of these documents, by their ids."""
    queries = store.builds.table(side.given("queries"))
    asked = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    corpus = store.builds.batches(side.given("corpus"), ("doc_id", "title", "text"))
    return asked, passages_of(corpus, pa.array(doc_ids, pa.string()))


def _heads(run: pa.Table, query_ids: Sequence[str]) -> dict[str, str]:
    asked = pc.is_in(run["query_id"], value_set=pa.array(query_ids, pa.string()))
    first = run.filter(pc.and_(asked, pc.equal(run["rank"], 1)))
    return dict(zip(first["query_id"].to_pylist(), first["doc_id"].to_pylist(), strict=True))
