"""The best of a run's systems, and whether a trained model is worth using: chosen on dev queries, told by test queries.

A trained model must earn its place against what needs no training.  It is worth using alone if its gain over BM25 and
its gain over the untrained model lie above 0 with their whole intervals over the dev queries; in a hybrid, if those of
its hybrid over BM25 and over the untrained model's hybrid do.  What is recommended is the system with the greatest mean
on the dev queries, among those that need no training and those that are worth using.
No choice reads the test queries, so that what is told by them is as good as it will be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from noisyir.evaluation.significance import Difference, crossed_t_test

Array = np.ndarray

LEXICAL, START, HYBRID = "bm25", "zero_shot", "hybrid"
_SUFFIX = f"_{HYBRID}"


def hybrid_of(model: str) -> str:
    """The name of the system that is BM25 and this one."""
    return f"{model}{_SUFFIX}"


def model_of(system: str) -> str:
    """The name of the system whose vectors a hybrid takes; of any other its own."""
    return system.removesuffix(_SUFFIX)


@dataclass(frozen=True)
class Standing:
    """A system's values on the queries that are chosen by, and on those that it is told by, each by query and seed."""

    system: str
    chosen: Float[Array, "query seed"]
    told: Float[Array, "query seed"]

    @property
    def needs_training(self) -> bool:
        """Whether a model behind it was trained."""
        return model_of(self.system) not in (LEXICAL, START)


@dataclass(frozen=True)
class Recommendation:
    """Standings of systems, in the order of their run's tables, on one measure.

    chosen_on, told_on: splits; the same one where no dev query is judged, so that the best is told a little too well.
    chosen_groups, groups: equal numbers mark queries that are one draw, those of one document; `groups` of the told.
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
        able = [one for one in self.standings.values() if not one.needs_training or self.is_worth(one.system)]
        return max(able or self.standings.values(), key=lambda one: float(one.chosen.mean())).system

    def is_worth(self, system: str) -> bool:
        """Whether a trained model, or its hybrid, is better than what needs no training; a hybrid also by its model."""
        return not self.short_of(system) or (system != model_of(system) and not self.short_of(model_of(system)))

    def short_of(self, system: str) -> list[str]:
        """The systems without training that this one is not better than, by the interval of its margin."""
        start = START if system == model_of(system) else hybrid_of(START)
        floors = [floor for floor in (LEXICAL, start) if {floor, system} <= self.standings.keys()]
        margins = {floor: self.margin(system, floor) for floor in floors}
        return [floor for floor, one in margins.items() if one.low <= 0 or one.p_value >= 1 - self.confidence]

    def is_usable(self, model: str) -> bool:
        """Whether a trained model is worth using, alone or in a hybrid."""
        return any(name in self.standings and self.is_worth(name) for name in (model, hybrid_of(model)))

    def margin(self, system: str, other: str) -> Difference:
        """The mean of what a system is better by than another on the queries that are chosen by, and its interval."""
        differences = self.standings[system].chosen - self.standings[other].chosen
        return crossed_t_test(differences, self.chosen_groups, self.confidence)

    def level(self, system: str) -> Difference:
        """A system's mean on the told queries, and its interval."""
        return crossed_t_test(self.standings[system].told, self.groups, self.confidence)

    def gain(self, system: str, other: str) -> Difference:
        """The mean of what a system is better by than another on the told queries, and its interval."""
        differences = self.standings[system].told - self.standings[other].told
        return crossed_t_test(differences, self.groups, self.confidence)


def recommendation(tables: Sequence[pa.Table], confidence: float = 0.95) -> Recommendation:
    """The recommendation by the STANDINGS of one run, or of several of the same settings under different seeds."""
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
    """(system, split), and its values in the order of query ids."""
    for split in table["split"].unique().to_pylist():
        of_split = table.filter(pc.equal(table["split"], split))
        for system in of_split["system"].unique().to_pylist():
            rows = of_split.filter(pc.equal(of_split["system"], system)).sort_by("query_id")
            yield (system, split), rows["value"].to_numpy()
