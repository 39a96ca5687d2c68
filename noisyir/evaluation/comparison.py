"""Systems compared on the same queries: means, differences, intervals and corrected p-values as one table."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from noisyir.base.errors import ConfigError, DataError, suggested
from noisyir.base.settings import PROMOTION
from noisyir.evaluation.artifacts import COMPARISON
from noisyir.evaluation.significance import Difference, Groups, crossed_t_test, holm, nested_t_test

Array = np.ndarray
T = TypeVar("T")


class Values(NamedTuple):
    """One measure on a split: sorted query ids, numbers that mark queries of one document, and values."""

    query_ids: pa.Array
    groups: Groups | None
    values: np.ndarray

    @property
    def by_query(self) -> dict[str, float]:
        """The values by query id."""
        return dict(zip(self.query_ids.to_pylist(), self.values.tolist(), strict=True))


OfMeasures = dict[tuple[str, str], Values]  # by split and measure


def compare(metrics: Mapping[str, pa.Table], *, baseline: str | None = None, confidence: float = 0.95) -> pa.Table:
    """The comparison of systems by their per-query metrics, in order, one seed each.

    Each is compared with the baseline, by default the first, and the last with every other.  Holm's family is all tests
    of the table.  The promotion split is left out, because only the gate may read it.
    """
    pairs = compared_pairs(list(metrics), baseline)
    found = values_per_query({system: without_promotion(table) for system, table in metrics.items()}, "systems")
    rows: list[dict[str, Any]] = []
    for split, measure in next(iter(found.values())):
        of_systems = {system: values[split, measure] for system, values in found.items()}
        for system, against in pairs:
            rows.append({"system": system, "measure": measure, "split": split})
            rows[-1] |= _row(of_systems[system], of_systems[against] if against else None, confidence)
            rows[-1]["baseline"] = against
    correct(rows)
    return pa.Table.from_pylist(rows, schema=COMPARISON.schema)


def without_promotion(metrics: pa.Table) -> pa.Table:
    """The rows of all splits but promotion."""
    return metrics.filter(pc.not_equal(metrics["split"], PROMOTION))


def compared_pairs(systems: Sequence[str], baseline: str | None) -> list[tuple[str, str | None]]:
    """Compared pairs (system, against); the baseline's own is None."""
    first = systems[0] if baseline is None else baseline
    if first not in systems:
        raise ConfigError("evaluation.unknown_baseline", baseline=first, others=suggested(first, systems))
    pairs = [(system, None if system == first else first) for system in systems]
    return pairs + [(systems[-1], other) for other in systems[:-1] if first not in (other, systems[-1])]


def _row(found: Values, other: Values | None, confidence: float) -> dict[str, Any]:
    mean = level(found.values[:, None], found.groups, confidence)
    row = {"queries": len(found.values), "mean": mean.mean, "low": mean.low, "high": mean.high}
    if other is None:
        return row
    gains = found.values - other.values
    return (
        row
        | difference(gains[:, None], found.groups, confidence)
        | {"wins": (gains > 0).sum(), "losses": (gains < 0).sum()}
    )


def level(values: np.ndarray, groups: Groups | None, confidence: float) -> Difference:
    """The mean of values by query and seed, and its interval, clipped to [0, 1] if all values are in it."""
    found = crossed_t_test(values, groups, confidence)
    if values.min() < 0 or values.max() > 1:
        return found
    return found._replace(low=max(found.low, 0.0), high=min(found.high, 1.0))


def difference(differences: np.ndarray, groups: Groups | None, confidence: float) -> dict[str, float]:
    """The mean of differences by query and seed, its interval, and its uncorrected p-value."""
    found = crossed_t_test(differences, groups, confidence)
    ends = {"difference_low": found.low, "difference_high": found.high}
    return {"difference": found.mean, **ends, "p_value": found.p_value}


def correct(rows: Sequence[dict[str, Any]]) -> None:
    """Add Holm's p-values to the rows with a test."""
    tested = [row for row in rows if "p_value" in row]
    for row, p_holm in zip(tested, holm(np.array([row["p_value"] for row in tested])), strict=True):
        row["p_holm"] = p_holm


def values_per_query(metrics: Mapping[T, pa.Table], what: str, stage: str = "") -> dict[T, OfMeasures]:
    """Each system's values by split and measure, in the order of its table.

    Raises:
        DataError: If two were scored on different queries; it calls them `what`.
    """
    found = {name: values_of(table) for name, table in metrics.items()}
    first, expected = next(iter(found.items()))
    no_ids = pa.array([], pa.string())
    for name, values in found.items():
        for where in {**expected, **values}:
            wanted, ids = (of[where].query_ids if where in of else no_ids for of in (expected, values))
            if not ids.equals(wanted):
                example = min({*wanted.to_pylist()} ^ {*ids.to_pylist()})
                raise DataError(
                    "evaluation.different_queries",
                    stage=stage,
                    measure=where[1],
                    split=where[0],
                    first=first,
                    first_queries=len(wanted),
                    other=name,
                    other_queries=len(ids),
                    example=example,
                    what=what,
                )
    return found


def values_of(table: pa.Table) -> OfMeasures:
    """Values of queries by (split, measure), in the table's order; means are skipped."""
    found: OfMeasures = {}
    table = table.filter(pc.is_valid(table["query_id"]))
    for group in table.group_by(["split", "measure"], use_threads=False).aggregate([]).to_pylist():
        split, measure = group["split"], group["measure"]
        of_measure = pc.and_(pc.equal(table["split"], split), pc.equal(table["measure"], measure))
        rows = table.filter(of_measure).sort_by("query_id")
        groups = None
        if "group" in rows.column_names:
            groups = rows["group"].combine_chunks().dictionary_encode().indices.to_numpy()
        found[split, measure] = Values(rows["query_id"].combine_chunks(), groups, rows["value"].to_numpy())
    return found


def choose(
    values: Mapping[str, Sequence[Float[Array, " query"]]], plain: str, alpha: float, *, same_queries: bool
) -> list[dict[str, Any]]:
    """A row for each method as TRIALS: its mean, its difference to plain training, and whether it is chosen.

    Chosen is the method with the greatest mean among those better than plain at a one-sided, Holm-corrected p below
    `alpha`, else plain training.  If no method is better, one other than plain is chosen with probability `alpha` at
    most.  `values` are by query and seed; `same_queries` says whether all seeds have the same queries.

    With s the standard error of a method's difference and z = Phi^-1(1 - alpha), the expected regret at the worst true
    difference is s max_x x Phi(-z - x) if the method is worse than plain, and s max_x x Phi(z - x) if it is better:
    .008 s and .84 s at alpha .05, .045 s and .44 s at .2, .12 s and .23 s at .4, .17 s and .17 s at .5.

    Source: Tetenov, Journal of Econometrics 2012 (tests as treatment choices, by asymmetric minimax regret).
    """
    others = [method for method in values if method != plain]
    tests = {method: _test(values[method], values[plain], same_queries) for method in others}
    better_by_chance = [test.p_value / 2 if test.mean > 0 else 1 - test.p_value / 2 for test in tests.values()]
    corrected = dict(zip(others, holm(np.array(better_by_chance)), strict=True))
    better = [method for method in others if tests[method].mean > 0 and corrected[method] < alpha]
    chosen = max(better, key=lambda method: tests[method].mean, default=plain)
    rows = []
    for method, found in values.items():
        queries = len(found[0]) if same_queries else sum(map(len, found))
        row = {"method": method, "queries": queries, "seeds": len(found), "mean": float(np.concatenate(found).mean())}
        if method != plain:
            test = tests[method]
            row |= {"difference": test.mean, "low": test.low, "high": test.high, "p_value": test.p_value}
            row["p_holm"] = float(corrected[method])
        rows.append(row | {"chosen": method == chosen})
    return rows


def _test(
    values: Sequence[Float[Array, " query"]], plain: Sequence[Float[Array, " query"]], same_queries: bool
) -> Difference:
    differences = [of_method - of_plain for of_method, of_plain in zip(values, plain, strict=True)]
    return crossed_t_test(np.stack(differences, axis=1)) if same_queries else nested_t_test(differences)
