"""How many negatives of the noise bench are false, and how well filters and judges tell them, over the seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from noisyir.eval.bench import Cell

CANDIDATES, MINED = "candidates", "mined"


@dataclass(frozen=True)
class MiningQuality:
    """One system of MINING_QUALITY under one kind and rate of noise: its measures, by seed.

    arms: of whom they are; several where they are equal to the bit.
    """

    mechanism: str
    rate: float
    arms: tuple[str, ...]
    system: str
    by_seed: Mapping[int, Mapping[str, float]]

    def mean(self, measure: str) -> float | None:
        """Over the seeds in which the measure is defined; None where it is in none."""
        values = self._values(measure)
        return float(np.mean(values)) if values else None

    def std(self, measure: str) -> float | None:
        """Over these seeds, one degree of freedom taken; None of fewer than two."""
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
    """Arms that share candidates and judges have equal numbers, which then stand once.

    Those of arms with candidates or judges of their own are not averaged: they answer different questions.
    """
    together: list[MiningQuality] = []
    for quality in qualities:
        for number, other in enumerate(together):
            if replace(other, arms=quality.arms) == quality:
                together[number] = replace(other, arms=(*other.arms, *quality.arms))
                break
        else:
            together.append(quality)
    return together
