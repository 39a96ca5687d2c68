"""Systems side by side on the same queries: means, differences, intervals and corrected p-values as one table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.errors import ConfigError, DataError, did_you_mean
from noisyir.eval import significance
from noisyir.schemas.results import COMPARISON

T = TypeVar("T")
Scores = Mapping[str, np.ndarray]
Values = dict[tuple[str, str], tuple[pa.Array, np.ndarray]]  # (split, measure) -> query ids, sorted, and values


def compare(
    metrics: Mapping[str, pa.Table],
    rng: np.random.Generator,
    *,
    baseline: str | None = None,
    confidence: float = 0.95,
    resamples: int = 10000,
) -> pa.Table:
    """The comparison of systems, given in order with their per-query metrics.

    Each system is compared with the baseline (the first, unless named), and the last, the one on trial, with every
    other too.  Holm's correction covers all tests of the table.  DataError when two systems were scored on different
    queries, ConfigError for a baseline that is not among them.
    """
    pairs = compared_pairs(list(metrics), baseline)
    rows: list[dict[str, Any]] = []
    for (split, _), measures in _by_queries(metrics).items():
        # One draw of queries serves all measures and systems on them: it is the queries that vary.
        columns = [(measure, system) for measure, scores in measures.items() for system in scores]
        values = np.stack([measures[measure][system] for measure, system in columns], axis=1)
        drawn = dict(zip(columns, significance.bootstrap_means(values, resamples, rng).T, strict=True))
        for measure, scores in measures.items():
            of_measure = {system: drawn[measure, system] for system in scores}
            rows += _rows(scores, of_measure, pairs, confidence, {"measure": measure, "split": split})
    correct(rows)
    return pa.Table.from_pylist(rows, schema=COMPARISON.schema)


def compared_pairs(systems: Sequence[str], baseline: str | None) -> list[tuple[str, str | None]]:
    """(system, what it is compared with) of every row of a comparison; the baseline itself stands alone."""
    first = systems[0] if baseline is None else baseline
    if first not in systems:
        known = ", ".join(systems)
        raise ConfigError(f"compare.baseline: no system {first!r}{did_you_mean(first, systems)}; there are {known}")
    pairs = [(system, None if system == first else first) for system in systems]
    return pairs + [(systems[-1], other) for other in systems[:-1] if first not in (other, systems[-1])]


def _rows(
    scores: Scores, drawn: Scores, pairs: Sequence[tuple[str, str | None]], confidence: float, about: Mapping[str, str]
) -> list[dict[str, Any]]:
    rows = []
    for system, baseline in pairs:
        low, high = significance.percentile_interval(drawn[system][:, None], confidence)[:, 0]
        row = {"system": system, **about, "queries": len(scores[system]), "mean": scores[system].mean()}
        row |= {"low": low, "high": high, "baseline": baseline}
        if baseline is not None:
            gains = scores[system] - scores[baseline]
            row |= difference(gains, drawn[system] - drawn[baseline], confidence)
            row |= {"wins": (gains > 0).sum(), "losses": (gains < 0).sum()}
        rows.append(row)
    return rows


def difference(differences: np.ndarray, drawn: np.ndarray, confidence: float) -> dict[str, float]:
    """What a table tells of one comparison: the mean difference, its interval and its p-value, before correction.

    differences: per query; drawn: their bootstrap means.
    """
    low, high = significance.percentile_interval(drawn[:, None], confidence)[:, 0]
    p_value = significance.paired_t_test(differences[:, None])[0]
    return {"difference": differences.mean(), "difference_low": low, "difference_high": high, "p_value": p_value}


def correct(rows: Sequence[dict[str, Any]]) -> None:
    """Put Holm's p-values into those of the rows that hold a test."""
    tested = [row for row in rows if "p_value" in row]
    for row, p_holm in zip(tested, significance.holm(np.array([row["p_value"] for row in tested])), strict=True):
        row["p_holm"] = p_holm


def _by_queries(metrics: Mapping[str, pa.Table]) -> dict[tuple[str, tuple[str, ...]], dict[str, Scores]]:
    """(split, its query ids) -> measure -> system -> values in that order; DataError when systems' queries differ."""
    values = values_per_query({system: table.sort_by("query_id") for system, table in metrics.items()}, "systems")
    grouped: dict[tuple[str, tuple[str, ...]], dict[str, Scores]] = {}
    for where, (ids, _) in next(iter(values.values())).items():
        scores = {system: of_system[where][1] for system, of_system in values.items()}
        grouped.setdefault((where[0], tuple(ids.to_pylist())), {})[where[1]] = scores
    return grouped


def values_per_query(metrics: Mapping[T, pa.Table], what: str, stage: str = "") -> dict[T, Values]:
    """The values of each system, or whatever else has metrics, by split and measure in the order of its table.

    DataError, which calls them `what`, when two were not scored on the same queries.
    """
    found = {name: dict(_values(table)) for name, table in metrics.items()}
    first, expected = next(iter(found.items()))
    nobody = pa.array([], pa.string())
    for name, values in found.items():
        for where in {**expected, **values}:
            wanted, ids = (of[where][0] if where in of else nobody for of in (expected, values))
            if not ids.equals(wanted):
                example = min({*wanted.to_pylist()} ^ {*ids.to_pylist()})
                raise DataError(
                    f"{stage}{where[1]} of {where[0]}: {first} was scored on {len(wanted)} queries and {name} on "
                    f"{len(ids)}, and not on the same (for example {example!r}); score all {what} with the same qrels, "
                    "queries and measures"
                )
    return found


def _values(table: pa.Table) -> Iterator[tuple[tuple[str, str], tuple[pa.Array, np.ndarray]]]:
    """(split, measure) in the table's order, with the query ids, sorted, and their values; means are passed by."""
    table = table.filter(pc.is_valid(table["query_id"]))
    for group in table.group_by(["split", "measure"], use_threads=False).aggregate([]).to_pylist():
        split, measure = group["split"], group["measure"]
        of_measure = pc.and_(pc.equal(table["split"], split), pc.equal(table["measure"], measure))
        rows = table.filter(of_measure).sort_by("query_id")
        yield (split, measure), (rows["query_id"].combine_chunks(), rows["value"].to_numpy())
