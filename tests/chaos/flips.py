"""A byte flipped in a file of any kind."""

import random
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.case import Case
from tests.chaos.damage import damaged_files
from tests.chaos.world import TASKS


def cases(seed: int, count: int, folder: Path, tasks: tuple[str, ...] = TASKS) -> Iterator[Case]:
    """So many trials, in a store that these tasks made."""
    return damaged_files(seed, count, folder, _flipped, tasks)


def _flipped(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ draw.randint(1, 255)]) + data[at + 1 :]
