"""Quality of the noise bench's detectors, filters and judges, over seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from noisyir.evaluation.bench import Cell

CANDIDATES, MINED = "candidates", "mined"
When = Literal["only", "first", "last"]
_Key = tuple[str, float, str, When]


@dataclass(frozen=True)
class Quality:
    """One detector under one kind and rate of noise.

    Attributes:
        epochs: The scoring model's epoch in each seed.
        means: Mean of each measure over the seeds that define it.
        covered: Number of the `intervals` of the noise rate, one per seed, that hold the true rate.
    """

    mechanism: str
    rate: float
    detector: str
    when: When
    epochs: tuple[int, ...]
    means: Mapping[str, float]
    covered: int
    intervals: int


def detection_quality(detection: Mapping[Cell, pa.Table]) -> list[Quality]:
    """Each detector's first and last verdicts, averaged over seeds.

    Detectors are named by their cells' labels; by the tables' systems if all cells have one label.
    """
    labelled = len({cell.method for cell in detection}) > 1
    found: dict[_Key, list[tuple[int, Mapping[str, float]]]] = {}
    for cell, table in detection.items():
        for system, when, epoch, values in _verdicts(table):
            detector = _name(cell.method, system, table) if labelled else system
            found.setdefault((cell.mechanism, cell.rate, detector, when), []).append((epoch, values))
    return [_over_seeds(key, of_seeds) for key, of_seeds in found.items()]


def covers(values: Mapping[str, float]) -> bool | None:
    """Whether the interval of the noise rate holds the true rate; None if one is unknown."""
    if not {"rate_low", "rate_high", "true_rate"} <= values.keys():
        return None
    return values["rate_low"] <= values["true_rate"] <= values["rate_high"]


def _name(label: str, system: str, table: pa.Table) -> str:
    alone = len(table["system"].unique()) == 1
    return label if alone or label == system else f"{label} {system}"


def _verdicts(table: pa.Table) -> Iterator[tuple[str, When, int, Mapping[str, float]]]:
    """(system, when, epoch, measures) of each system's first and last epoch in one cell's table."""
    systems: dict[str, dict[int, dict[str, float]]] = {}
    for row in table.to_pylist():
        systems.setdefault(row["system"], {}).setdefault(row["epoch"], {})[row["measure"]] = row["value"]
    for system, epochs in systems.items():
        first, last = min(epochs), max(epochs)
        if first == last:
            yield system, "only", first, epochs[first]
        else:
            yield system, "first", first, epochs[first]
            yield system, "last", last, epochs[last]


def _over_seeds(key: _Key, of_seeds: list[tuple[int, Mapping[str, float]]]) -> Quality:
    measures = dict.fromkeys(name for _, values in of_seeds for name in values)
    known = {name: [values[name] for _, values in of_seeds if name in values] for name in measures}
    verdicts = [covered for _, values in of_seeds if (covered := covers(values)) is not None]
    mechanism, rate, detector, when = key
    means = {name: sum(values) / len(values) for name, values in known.items()}
    epochs = tuple(epoch for epoch, _ in of_seeds)
    return Quality(mechanism, rate, detector, when, epochs, means, sum(verdicts), len(verdicts))


@dataclass(frozen=True)
class MiningQuality:
    """Measures by seed of one system of MINING_QUALITY under one kind and rate of noise; equal arms share one."""

    mechanism: str
    rate: float
    arms: tuple[str, ...]
    system: str
    by_seed: Mapping[int, Mapping[str, float]]

    def mean(self, measure: str) -> float | None:
        """The mean over the seeds that define the measure, if any."""
        values = self._values(measure)
        return float(np.mean(values)) if values else None

    def std(self, measure: str) -> float | None:
        """The unbiased standard deviation over these seeds; None with fewer than two."""
        values = self._values(measure)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    def _values(self, measure: str) -> list[float]:
        return [values[measure] for values in self.by_seed.values() if measure in values]


def mining_quality(mining: Mapping[Cell, pa.Table]) -> list[MiningQuality]:
    """Every system of every arm, in the order of the cells."""
    found: dict[tuple[str, float, str, str], dict[int, dict[str, float]]] = {}
    for cell, table in mining.items():
        for row in table.to_pylist():
            by_seed = found.setdefault((cell.mechanism, cell.rate, cell.method, row["system"]), {})
            by_seed.setdefault(cell.seed, {})[row["measure"]] = row["value"]
    return [
        MiningQuality(mechanism, rate, (arm,), system, by_seed)
        for (mechanism, rate, arm, system), by_seed in found.items()
    ]


def equal_arms_together(qualities: Sequence[MiningQuality]) -> list[MiningQuality]:
    """Qualities with equal arms merged; different ones measure other data and are not averaged."""
    together: list[MiningQuality] = []
    for quality in qualities:
        for number, other in enumerate(together):
            if replace(other, arms=quality.arms) == quality:
                together[number] = replace(other, arms=(*other.arms, *quality.arms))
                break
        else:
            together.append(quality)
    return together
