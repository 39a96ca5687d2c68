"""The same with a second between what gc looks at and what it deletes, in which runs begin."""

import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import gc
from tests.chaos.case import Case


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many runs."""
    return gc.cases(seed, count, folder, _late)


def _late() -> None:
    from noisyir.app import retention

    unneeded = retention.unneeded

    def found(*given: object, **named: object) -> object:
        doomed = unneeded(*given, **named)  # type: ignore[arg-type]
        time.sleep(1)
        return doomed

    retention.unneeded = found  # type: ignore[assignment]
