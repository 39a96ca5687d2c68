"""Systems side by side on the same queries: means, differences, intervals and corrected p-values as one table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.errors import ConfigError, DataError, did_you_mean
from noisyir.eval import significance
from noisyir.schemas.results import COMPARISON

Scores = Mapping[str, np.ndarray]


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
    _correct(rows)
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
            row |= _difference(scores[system] - scores[baseline], drawn[system] - drawn[baseline], confidence)
        rows.append(row)
    return rows


def _difference(differences: np.ndarray, drawn: np.ndarray, confidence: float) -> dict[str, Any]:
    low, high = significance.percentile_interval(drawn[:, None], confidence)[:, 0]
    wins, losses = significance.wins_and_losses(differences[:, None])
    return {
        "difference": differences.mean(),
        "difference_low": low,
        "difference_high": high,
        "p_value": significance.paired_t_test(differences[:, None])[0],
        "wins": wins[0],
        "losses": losses[0],
    }


def _correct(rows: list[dict[str, Any]]) -> None:
    tested = [row for row in rows if row["baseline"] is not None]
    for row, p_holm in zip(tested, significance.holm(np.array([row["p_value"] for row in tested])), strict=True):
        row["p_holm"] = p_holm


def _by_queries(metrics: Mapping[str, pa.Table]) -> dict[tuple[str, tuple[str, ...]], dict[str, Scores]]:
    """(split, its query ids) -> measure -> system -> values in that order; DataError when systems' queries differ."""
    values = {system: dict(_values(table)) for system, table in metrics.items()}
    first, *others = values
    for system in others:
        for where in {**values[first], **values[system]}:
            expected, ids = (values[name][where][0] if where in values[name] else () for name in (first, system))
            if ids != expected:
                raise DataError(_unlike(first, expected, system, ids, " of ".join(reversed(where))))
    grouped: dict[tuple[str, tuple[str, ...]], dict[str, Scores]] = {}
    for where, (ids, _) in values[first].items():
        scores = {system: of_system[where][1] for system, of_system in values.items()}
        grouped.setdefault((where[0], ids), {})[where[1]] = scores
    return grouped


def _values(table: pa.Table) -> Iterator[tuple[tuple[str, str], tuple[tuple[str, ...], np.ndarray]]]:
    """(split, measure) with the query ids, sorted, and their values; the rows of means are passed by."""
    table = table.filter(pc.is_valid(table["query_id"])).sort_by("query_id")
    for split, measure in dict.fromkeys(zip(table["split"].to_pylist(), table["measure"].to_pylist(), strict=True)):
        rows = table.filter(pc.and_(pc.equal(table["split"], split), pc.equal(table["measure"], measure)))
        yield (split, measure), (tuple(rows["query_id"].to_pylist()), rows["value"].to_numpy())


def _unlike(first: str, expected: tuple[str, ...], system: str, ids: tuple[str, ...], where: str) -> str:
    example = min(set(expected) ^ set(ids))
    return (
        f"{where}: {first} was scored on {len(expected)} queries and {system} on {len(ids)}, and not on the same "
        f"(for example {example!r}); score all systems with the same qrels, queries and measures"
    )
