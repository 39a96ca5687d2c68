"""A file of any kind cut short."""

import random
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.case import Case
from tests.chaos.damage import damaged_files


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many trials."""
    return damaged_files(seed, count, folder, _cut)


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]
