"""The best of a run's systems, and whether a trained model is worth using: chosen on dev queries, reported on test.

A trained model is worth using, alone or in a hybrid, if the interval of its gain over BM25 on the dev queries lies
above 0, for BM25 needs no model.  Its mean must also be above the means of the untrained model and of models as they
are.  These cost as much to search with, so no gain is too small.
The best system has the greatest dev mean among those worth using and those without training, and of equal ones is the
cheapest to search with.  No choice reads the test queries, so their means are unbiased.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from noisyir.engine.meta import Ref
from noisyir.engine.store import Store
from noisyir.evaluation.comparison import level
from noisyir.evaluation.significance import Difference, crossed_t_test

Array = np.ndarray

LEXICAL, START, STATIC, HYBRID = "bm25", "zero_shot", "static", "hybrid"
_SUFFIX, _AS_IS = f"_{HYBRID}", "_as_is"
_SHOWN = 3  # digits of a mean: of systems with equal ones the cheaper is better


def hybrid_of(model: str) -> str:
    """The name of the hybrid of BM25 and a system."""
    return f"{model}{_SUFFIX}"


def as_is(model: str) -> str:
    """The name of a model that is used as it is."""
    return f"{model}{_AS_IS}"


def model_as_is(system: str) -> str | None:
    """The model that a system, alone or with BM25, uses as it is; None for any other system."""
    model = model_of(system)
    return model.removesuffix(_AS_IS) if model.endswith(_AS_IS) else None


def needs_no_training(system: str) -> bool:
    """Whether a system has no trained model."""
    return model_of(system) in (LEXICAL, START) or model_as_is(system) is not None


def model_of(system: str) -> str:
    """The name of a hybrid's dense system; any other system's own name."""
    return system.removesuffix(_SUFFIX)


def _cost(system: str) -> tuple[bool, bool, bool]:
    """An order of costs: BM25, a model, both together; of equal ones a model without training first."""
    return system != model_of(system), system != LEXICAL, not needs_no_training(system)


@dataclass(frozen=True)
class Standing:
    """A system's values by query and seed, on the queries that choose and on the queries that report."""

    system: str
    chosen: Float[Array, "query seed"]
    told: Float[Array, "query seed"]


@dataclass(frozen=True)
class Recommendation:
    """Standings of systems on one measure, in the order of their run's tables.

    Attributes:
        chosen_on, told_on: Splits; one and the same if no dev query is judged, and then the best is a little overrated.
        chosen_groups, groups: Equal numbers mark queries of one document, which are one draw.
    """

    measure: str
    chosen_on: str
    told_on: str
    standings: dict[str, Standing]
    chosen_groups: Int[Array, " query"]
    groups: Int[Array, " query"]
    confidence: float = 0.95

    @cached_property
    def best(self) -> str:
        """The system to use."""
        return min(self._able, key=lambda system: (-round(self.chosen_mean(system), _SHOWN), _cost(system)))

    @property
    def _able(self) -> list[str]:
        """The systems that may be recommended."""
        able = [system for system in self.standings if needs_no_training(system) or self.is_worth(system)]
        return able or list(self.standings)

    @property
    def cheaper(self) -> str | None:
        """The cheapest, rather one without training, of the systems that no queries show to be worse than the best."""
        cheaper = [one for one in self._able if _cost(one) < _cost(self.best)]
        equal = [one for one in cheaper if max(self.margin(self.best, one).low, self.gain(self.best, one).low) <= 0]
        return min(equal, key=lambda one: (not needs_no_training(one), _cost(one)), default=None)

    def is_worth(self, system: str) -> bool:
        """Whether a trained model, or its hybrid, is better than what needs no training; a hybrid also by its model."""
        return not self.short_of(system) or (system != model_of(system) and not self.short_of(model_of(system)))

    def short_of(self, system: str) -> list[str]:
        """The systems without training that are reason enough not to use this one.

        It must be significantly better than BM25.  A model without training counts against both forms of a trained
        model, alone and with BM25, if its mean is no less than the better of the two.
        """
        short = []
        if LEXICAL in self.standings:
            margin = self.margin(system, LEXICAL)
            short = [LEXICAL] if margin.low <= 0 or margin.p_value >= 1 - self.confidence else []
        forms = {model_of(system), hybrid_of(model_of(system))} & self.standings.keys()
        reached = max(self.chosen_mean(form) for form in forms)
        models = [name for name in self.standings if name != LEXICAL and needs_no_training(name)]
        return short + [name for name in models if self.chosen_mean(name) >= reached]

    def chosen_mean(self, system: str) -> float:
        """A system's mean on the queries that choose."""
        return float(self.standings[system].chosen.mean())

    def is_usable(self, model: str) -> bool:
        """Whether a trained model is worth using, alone or in a hybrid."""
        return any(name in self.standings and self.is_worth(name) for name in (model, hybrid_of(model)))

    def margin(self, system: str, other: str) -> Difference:
        """A system's mean gain over another on the queries that choose."""
        differences = self.standings[system].chosen - self.standings[other].chosen
        return crossed_t_test(differences, self.chosen_groups, self.confidence)

    @property
    def missed(self) -> int:
        """Number of reported queries that score 0 with every system and seed."""
        told = np.concatenate([standing.told for standing in self.standings.values()], axis=1)
        return int((told == 0).all(axis=1).sum())

    def level(self, system: str) -> Difference:
        """A system's mean on the reported queries."""
        return level(self.standings[system].told, self.groups, self.confidence)

    def gain(self, system: str, other: str) -> Difference:
        """A system's mean gain over another on the reported queries."""
        differences = self.standings[system].told - self.standings[other].told
        return crossed_t_test(differences, self.groups, self.confidence)


def recommendation(tables: Sequence[pa.Table], confidence: float = 0.95) -> Recommendation:
    """The recommendation by the STANDINGS of one run, or of several that differ by their seed."""
    first = tables[0]
    splits = first["split"].unique().to_pylist()
    told_on = splits[0]
    chosen_on = "dev" if "dev" in splits else told_on
    seeds = [dict(_values(table)) for table in tables]
    systems = [name for name in first["system"].unique().to_pylist() if all((name, told_on) in one for one in seeds)]
    standings = {
        name: Standing(name, *(np.stack([one[name, split] for one in seeds], axis=1) for split in (chosen_on, told_on)))
        for name in systems
    }
    mine = first.filter(pc.equal(first["system"], systems[0]))
    groups = _groups(mine, chosen_on), _groups(mine, told_on)
    return Recommendation(first["measure"][0].as_py(), chosen_on, told_on, standings, *groups, confidence)


def _groups(table: pa.Table, split: str) -> Int[Array, " query"]:
    """The groups of a system's queries of a split, as numbers, in the order of query ids."""
    rows = table.filter(pc.equal(table["split"], split)).sort_by("query_id")
    return np.unique(rows["group"].to_numpy(zero_copy_only=False), return_inverse=True)[1]


def _values(table: pa.Table) -> Iterator[tuple[tuple[str, str], Float[Array, " query"]]]:
    """Values by (system, split), in the order of query ids."""
    for split in table["split"].unique().to_pylist():
        of_split = table.filter(pc.equal(table["split"], split))
        for system in of_split["system"].unique().to_pylist():
            rows = of_split.filter(pc.equal(of_split["system"], system)).sort_by("query_id")
            yield (system, split), rows["value"].to_numpy()


def scored_systems(store: Store, comparison: Ref) -> dict[str, Ref]:
    """The scoring of each system that was compared."""
    return {name.removeprefix("metrics."): ref for name, ref in store.builds.meta(comparison).input_refs()}
