"""The noise bench's numbers: methods compared under every kind and rate of noise, over seeds and queries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from noisyir.base.errors import ConfigError, DataError, suggested
from noisyir.evaluation.artifacts import BENCH_SUMMARY
from noisyir.evaluation.comparison import correct, difference, level, values_per_query, without_promotion
from noisyir.evaluation.significance import Groups

Array = np.ndarray
T = TypeVar("T")
_NAMED = 4  # missing cells that an error names


@dataclass(frozen=True)
class Cell:
    """One run of the bench; its text, such as `uniform:0.5:npc:1`, labels its results among a stage's inputs.

    `method` is a detector if detection is scored.
    """

    mechanism: str
    rate: float
    method: str
    seed: int

    def __post_init__(self) -> None:
        if ":" in self.mechanism + self.method:
            raise ConfigError("evaluation.colon_in_name", mechanism=self.mechanism, method=self.method)

    def __str__(self) -> str:
        return f"{self.mechanism}:{self.rate!r}:{self.method}:{self.seed}"

    @classmethod
    def parse(cls, label: str) -> "Cell":
        """Inverse of `str`.

        Raises:
            ConfigError: If the label has another form.
        """
        with ConfigError.wrapping("evaluation.bad_cell_label", ValueError, label=label):
            mechanism, rate, method, seed = label.split(":")
            return cls(mechanism, float(rate), method, int(seed))


@dataclass(frozen=True)
class CellBlock:
    """One measure of every method under one kind and rate of noise, on the same queries and seeds.

    Equal numbers in `groups` mark queries of one document.
    """

    mechanism: str
    rate: float
    measure: str
    split: str
    methods: tuple[str, ...]
    query_ids: tuple[str, ...]
    groups: Groups | None
    values: Float[Array, "method seed query"]


def by_cell(labelled: Mapping[str, T], given: Collection[str] = ()) -> dict[Cell, T]:
    """Values by cell, ordered by mechanism and rate; methods in `given` may lack a whole condition.

    Raises:
        DataError: If two labels mean one cell, or a method lacks a seed that another has under the same noise.
    """
    cells = {Cell.parse(label): value for label, value in labelled.items()}
    if len(cells) < len(labelled):
        raise DataError("evaluation.repeated_cells", labels=len(labelled), cells=len(cells))
    if missing := _missing(cells, given):
        named = ", ".join(map(str, missing[:_NAMED])) + (", ..." if len(missing) > _NAMED else "")
        raise DataError("evaluation.missing_cells", missing=len(missing), cells=len(cells) + len(missing), named=named)
    mechanisms = list(dict.fromkeys(cell.mechanism for cell in cells))
    ordered = sorted(cells, key=lambda cell: (mechanisms.index(cell.mechanism), cell.rate))
    return {cell: cells[cell] for cell in ordered}


def read_blocks(metrics: Mapping[Cell, pa.Table]) -> list[CellBlock]:
    """The cells' values per query, stacked."""
    blocks = []
    for mechanism, rate in dict.fromkeys((cell.mechanism, cell.rate) for cell in metrics):
        of_noise = [cell for cell in metrics if (cell.mechanism, cell.rate) == (mechanism, rate)]
        cells = {cell: without_promotion(metrics[cell]) for cell in of_noise}
        methods = tuple(dict.fromkeys(cell.method for cell in cells))
        seeds = sorted({cell.seed for cell in cells})
        values = values_per_query(cells, "cells", "noise_table: ")
        for where, (ids, groups, _) in next(iter(values.values())).items():
            of_seeds = [[values[Cell(mechanism, rate, name, seed)][where].values for seed in seeds] for name in methods]
            about = (mechanism, rate, where[1], where[0], methods, tuple(ids.to_pylist()))
            blocks.append(CellBlock(*about, groups, np.array(of_seeds)))
    return blocks


def summarise(
    blocks: Sequence[CellBlock], *, baseline: str, reference: str | None = None, confidence: float = 0.95
) -> pa.Table:
    """Every method's mean and spread, and its differences to the baseline and the reference, as BENCH_SUMMARY.

    Tests and intervals are over queries and seeds; Holm's family is all tests of the table.
    """
    rows: list[dict[str, Any]] = []
    for block in blocks:
        rows += _rows(block, compared(block.methods, baseline, reference), confidence)
    correct(rows)
    return pa.Table.from_pylist(rows, schema=BENCH_SUMMARY.schema)


def compared(methods: Sequence[str], baseline: str, reference: str | None) -> list[tuple[str, str | None]]:
    """Compared pairs (method, against): all with the baseline, then the others with the reference."""
    for setting, name in (("baseline", baseline), ("reference", reference)):
        if name is not None and name not in methods:
            hint = "; where there is none, set it to null" if setting == "reference" else ""
            others = suggested(name, methods)
            raise ConfigError("evaluation.unknown_method", setting=setting, name=name, others=others, hint=hint)
    pairs: list[tuple[str, str | None]] = [(method, None if method == baseline else baseline) for method in methods]
    if reference is None:
        return pairs
    return pairs + [(method, reference) for method in methods if method not in (baseline, reference)]


def _missing(cells: Collection[Cell], given: Collection[str]) -> list[Cell]:
    """Cells that a method lacks although another has their seed and noise."""
    methods = dict.fromkeys(cell.method for cell in cells)
    runs = dict.fromkeys((cell.mechanism, cell.rate, cell.seed) for cell in cells)
    wanted = (Cell(mechanism, rate, method, seed) for mechanism, rate, seed in runs for method in methods)
    there = {(cell.mechanism, cell.rate, cell.method) for cell in cells}
    return [
        cell
        for cell in wanted
        if cell not in cells and (cell.method not in given or (cell.mechanism, cell.rate, cell.method) in there)
    ]


def _rows(block: CellBlock, pairs: Sequence[tuple[str, str | None]], confidence: float) -> list[dict[str, Any]]:
    per_seed = dict(zip(block.methods, block.values.mean(axis=2), strict=True))
    values = dict(zip(block.methods, block.values.transpose(0, 2, 1), strict=True))  # (query, seed) of each method
    rows = []
    for method, against in pairs:
        mean = level(values[method], block.groups, confidence)
        row = {"mechanism": block.mechanism, "rate": block.rate, "method": method, "against": against}
        row |= {"measure": block.measure, "split": block.split}
        row |= {"seeds": len(per_seed[method]), "queries": len(block.query_ids), "low": mean.low, "high": mean.high}
        row |= {"mean": mean.mean, "seed_std": _spread(per_seed[method])}
        if against is not None:
            row |= difference(values[method] - values[against], block.groups, confidence)
            of_seeds = per_seed[method] - per_seed[against]
            row |= {"difference_seed_std": _spread(of_seeds), "seeds_better": int((of_seeds > 0).sum())}
        rows.append(row)
    return rows


def _spread(of_seeds: Float[Array, " seed"]) -> float | None:
    """Unbiased standard deviation over seeds; None with one seed."""
    return float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else None
