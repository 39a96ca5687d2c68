"""What a call of a stage takes, for a forecast before it runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """What one call of a stage takes, at most.

    rows: what a person counts of it, in `unit`; amount: what its time is in proportion to;
    flops: of models and matrix products, at the texts' mean lengths;
    rate: seconds for a unit of `amount` where neither builds nor `flops` tell; None: not known;
    vectors: bytes of vectors or index; ram, disk: bytes it holds at once, and leaves in the store.
    """

    rows: float
    unit: str
    amount: float
    flops: float = 0.0
    rate: float | None = None
    vectors: float = 0.0
    ram: float = 0.0
    disk: float = 0.0
