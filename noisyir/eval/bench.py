"""The noise bench's numbers: methods side by side under every kind and rate of noise, over seeds and queries."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from noisyir.errors import ConfigError, DataError, did_you_mean
from noisyir.eval import significance
from noisyir.schemas.results import BENCH_SUMMARY

Array = np.ndarray
T = TypeVar("T")
_NAMED = 4  # missing cells that an error names


@dataclass(frozen=True)
class Cell:
    """One run of the bench.  Its text, `uniform:0.5:npc:1`, labels the run's results among a stage's inputs.

    method: what was trained or, where detection is scored, who looked for wrong pairs.
    """

    mechanism: str
    rate: float
    method: str
    seed: int

    def __post_init__(self) -> None:
        if ":" in self.mechanism + self.method:
            raise ConfigError(f"{self.mechanism!r}, {self.method!r}: names in the bench may not hold a colon")

    def __str__(self) -> str:
        return f"{self.mechanism}:{self.rate!r}:{self.method}:{self.seed}"

    @classmethod
    def parse(cls, label: str) -> "Cell":
        """Inverse of `str`; ConfigError when the label is of another form."""
        try:
            mechanism, rate, method, seed = label.split(":")
            return cls(mechanism, float(rate), method, int(seed))
        except ValueError as error:
            raise ConfigError(
                f"{label!r} labels no cell of the bench: it must be mechanism:rate:method:seed, as uniform:0.5:npc:1"
            ) from error


@dataclass(frozen=True)
class Block:
    """One measure of every method under one kind and rate of noise: the same queries and seeds for all of them."""

    mechanism: str
    rate: float
    measure: str
    split: str
    methods: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: Float[Array, "method seed query"]


def by_cell(labelled: Mapping[str, T]) -> dict[Cell, T]:
    """What the labels say, by mechanism as they come, then by rate; the rest stays in the order given.

    DataError when two labels mean one cell, or when a method lacks a seed that another has under the same noise: that
    bench was run only in part.
    """
    cells = {Cell.parse(label): value for label, value in labelled.items()}
    if len(cells) < len(labelled):
        raise DataError(f"noise_table: {len(labelled)} labels mean only {len(cells)} cells: some are given twice")
    if missing := _missing(cells):
        named = ", ".join(map(str, missing[:_NAMED])) + (", ..." if len(missing) > _NAMED else "")
        raise DataError(
            f"noise_table: {len(missing)} of the bench's {len(cells) + len(missing)} cells are missing: {named}. "
            f"Every method needs the same seeds under each noise: run the bench to its end"
        )
    mechanisms = list(dict.fromkeys(cell.mechanism for cell in cells))
    ordered = sorted(cells, key=lambda cell: (mechanisms.index(cell.mechanism), cell.rate))
    return {cell: cells[cell] for cell in ordered}


def read_blocks(metrics: Mapping[Cell, pa.Table]) -> list[Block]:
    """The cells' values per query, brought together; DataError when two have not the same measures and queries."""
    blocks = []
    for mechanism, rate in dict.fromkeys((cell.mechanism, cell.rate) for cell in metrics):
        cells = {cell: table for cell, table in metrics.items() if (cell.mechanism, cell.rate) == (mechanism, rate)}
        methods = tuple(dict.fromkeys(cell.method for cell in cells))
        seeds = sorted({cell.seed for cell in cells})
        values = _values_of(cells)
        for (split, measure), (query_ids, of_cell) in values.items():
            stacked = [[of_cell[Cell(mechanism, rate, method, seed)] for seed in seeds] for method in methods]
            blocks.append(Block(mechanism, rate, measure, split, methods, query_ids, np.array(stacked)))
    return blocks


def summarise(
    blocks: Sequence[Block],
    rng: np.random.Generator,
    *,
    baseline: str,
    reference: str | None = None,
    confidence: float = 0.95,
    resamples: int = 10000,
) -> pa.Table:
    """Every method's mean and spread, and its difference to the baseline and to the reference, as BENCH_SUMMARY.

    A method's value on a query is its mean over seeds; tests and intervals are over queries.  Holm's correction covers
    all tests of the table.  ConfigError for a baseline or a reference that is not among the methods.
    """
    rows: list[dict[str, Any]] = []
    for block, drawn in zip(blocks, _resampled(blocks, resamples, rng), strict=True):
        rows += _rows(block, drawn, compared(block.methods, baseline, reference), confidence)
    tested = [row for row in rows if row["against"] is not None]
    for row, p_holm in zip(tested, significance.holm(np.array([row["p_value"] for row in tested])), strict=True):
        row["p_holm"] = p_holm
    return pa.Table.from_pylist(rows, schema=BENCH_SUMMARY.schema)


def compared(methods: Sequence[str], baseline: str, reference: str | None) -> list[tuple[str, str | None]]:
    """(method, what it is compared with), each pair once: all with the baseline, then the others with the reference."""
    for setting, name in (("baseline", baseline), ("reference", reference)):
        if name is not None and name not in methods:
            hint = "; where there is none, set it to null" if setting == "reference" else ""
            known = f"{did_you_mean(name, methods)}; there are {', '.join(methods)}"
            raise ConfigError(f"table.{setting}: no method {name!r}{known}{hint}")
    pairs: list[tuple[str, str | None]] = [(method, None if method == baseline else baseline) for method in methods]
    if reference is None:
        return pairs
    return pairs + [(method, reference) for method in methods if method not in (baseline, reference)]


def _missing(cells: Collection[Cell]) -> list[Cell]:
    """Cells that a method lacks although another has that seed under that noise."""
    methods = dict.fromkeys(cell.method for cell in cells)
    runs = dict.fromkeys((cell.mechanism, cell.rate, cell.seed) for cell in cells)
    wanted = (Cell(mechanism, rate, method, seed) for mechanism, rate, seed in runs for method in methods)
    return [cell for cell in wanted if cell not in cells]


def _values_of(cells: Mapping[Cell, pa.Table]) -> dict[tuple[str, str], tuple[tuple[str, ...], dict[Cell, Array]]]:
    """(split, measure) -> the query ids, sorted, and each cell's values in that order."""
    found = {cell: dict(_per_query(table)) for cell, table in cells.items()}
    first, expected = next(iter(found.items()))
    nobody = pa.array([], pa.string())
    for cell, of_cell in found.items():
        for where in {**expected, **of_cell}:
            wanted, ids = (values[where][0] if where in values else nobody for values in (expected, of_cell))
            if not ids.equals(wanted):
                raise DataError(_unlike(where, first, wanted.to_pylist(), cell, ids.to_pylist()))
    return {
        where: (tuple(ids.to_pylist()), {cell: of_cell[where][1] for cell, of_cell in found.items()})
        for where, (ids, _) in expected.items()
    }


def _per_query(table: pa.Table) -> Iterator[tuple[tuple[str, str], tuple[pa.Array, Array]]]:
    """(split, measure) in the table's order, with the query ids, sorted, and their values; means are passed by."""
    table = table.filter(pc.is_valid(table["query_id"]))
    for group in table.group_by(["split", "measure"], use_threads=False).aggregate([]).to_pylist():
        split, measure = group["split"], group["measure"]
        of_measure = pc.and_(pc.equal(table["split"], split), pc.equal(table["measure"], measure))
        rows = table.filter(of_measure).sort_by("query_id")
        yield (split, measure), (rows["query_id"].combine_chunks(), rows["value"].to_numpy())


def _unlike(where: tuple[str, str], first: Cell, expected: list[str], cell: Cell, ids: list[str]) -> str:
    split, measure = where
    return (
        f"noise_table: {measure} of {split}: {first} was scored on {len(expected)} queries and {cell} on {len(ids)}, "
        f"and not on the same (for example {min(set(expected) ^ set(ids))!r}); score all cells with the same qrels, "
        f"queries and measures"
    )


def _resampled(
    blocks: Sequence[Block], resamples: int, rng: np.random.Generator
) -> list[Float[Array, "resample method"]]:
    """Bootstrap means of each block; one draw of queries serves all that was measured on them: it is they that vary."""
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for number, block in enumerate(blocks):
        groups.setdefault((block.split, block.query_ids), []).append(number)
    drawn: dict[int, Float[Array, "resample method"]] = {}
    for numbers in groups.values():
        values = np.concatenate([blocks[number].values.mean(axis=1) for number in numbers])
        ends = np.cumsum([len(blocks[number].methods) for number in numbers])[:-1]
        means = significance.bootstrap_means(np.ascontiguousarray(values.T), resamples, rng)
        drawn.update(zip(numbers, np.split(means, ends, axis=1), strict=True))
    return [drawn[number] for number in range(len(blocks))]


def _rows(
    block: Block,
    drawn: Float[Array, "resample method"],
    pairs: Sequence[tuple[str, str | None]],
    confidence: float,
) -> list[dict[str, Any]]:
    per_query, per_seed = block.values.mean(axis=1), block.values.mean(axis=2)
    place = {method: number for number, method in enumerate(block.methods)}
    low, high = significance.percentile_interval(drawn, confidence)
    rows = []
    for method, against in pairs:
        this = place[method]
        row = {"mechanism": block.mechanism, "rate": block.rate, "method": method, "against": against}
        row |= {"measure": block.measure, "split": block.split}
        row |= {"seeds": len(per_seed[this]), "queries": len(block.query_ids), "low": low[this], "high": high[this]}
        row |= {"mean": per_query[this].mean(), "seed_std": _spread(per_seed[this])}
        if against is not None:
            other = place[against]
            row |= _difference(per_query[this] - per_query[other], drawn[:, this] - drawn[:, other], confidence)
            row |= _over_seeds(per_seed[this] - per_seed[other])
        rows.append(row)
    return rows


def _difference(
    differences: Float[Array, " query"], drawn: Float[Array, " resample"], confidence: float
) -> dict[str, float]:
    low, high = significance.percentile_interval(drawn[:, None], confidence)[:, 0]
    p_value = significance.paired_t_test(differences[:, None])[0]
    return {"difference": differences.mean(), "difference_low": low, "difference_high": high, "p_value": p_value}


def _over_seeds(differences: Float[Array, " seed"]) -> dict[str, float | None]:
    return {"difference_seed_std": _spread(differences), "seeds_better": int((differences > 0).sum())}


def _spread(of_seeds: Float[Array, " seed"]) -> float | None:
    """Standard deviation over seeds with one degree of freedom taken; None of one seed."""
    return float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else None
