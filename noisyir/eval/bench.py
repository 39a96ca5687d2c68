"""The noise bench's numbers: methods side by side under every kind and rate of noise, over seeds and queries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from noisyir.errors import ConfigError, DataError, did_you_mean
from noisyir.eval import significance
from noisyir.eval.compare import correct, difference, values_per_query
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
        values = values_per_query(cells, "cells", "noise_table: ")
        for where, (ids, _) in next(iter(values.values())).items():
            stacked = [[values[Cell(mechanism, rate, method, seed)][where][1] for seed in seeds] for method in methods]
            split, measure = where
            blocks.append(Block(mechanism, rate, measure, split, methods, tuple(ids.to_pylist()), np.array(stacked)))
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
    correct(rows)
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
    block: Block, drawn: Float[Array, "resample method"], pairs: Sequence[tuple[str, str | None]], confidence: float
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
            row |= difference(per_query[this] - per_query[other], drawn[:, this] - drawn[:, other], confidence)
            of_seeds = per_seed[this] - per_seed[other]
            row |= {"difference_seed_std": _spread(of_seeds), "seeds_better": int((of_seeds > 0).sum())}
        rows.append(row)
    return rows


def _spread(of_seeds: Float[Array, " seed"]) -> float | None:
    """Standard deviation over seeds with one degree of freedom taken; None of one seed."""
    return float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else None
