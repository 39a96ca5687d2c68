"""A small world of pairs: query n is a word of document n, and a third of the queries are paired with another's."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from tests.tiny_models import static_encoder
from tests.world import pairs_world

COUNT = 60
WRONG = np.arange(COUNT) % 3 == 0


def paired(number: int) -> int:
    """The document that query `number` is paired with: its own, or that of the next wrong pair."""
    return (number + 3) % COUNT if WRONG[number] else number


def pair_tables(count: int = COUNT) -> dict[str, pa.Table]:
    """The first pairs, over the whole corpus, and one of dev, which training may not use."""
    numbers = range(COUNT)
    return pairs_world(
        "queries corpus pairs qrels",
        {**{f"q{n}": f"w{n}" for n in numbers[:count]}, "dev": "w1"},
        [f"w{n} w{n} w{(n + 1) % COUNT}" for n in numbers],
        splits={"dev": "dev"},
        pairs=[*((f"q{n}", f"d{paired(n)}") for n in numbers[:count]), ("dev", "d0")],
        judged=[("dev", "d1", 1)],
    )


def model(folder: Path) -> Path:
    """A static bi-encoder to which all words are almost orthogonal."""
    vectors = torch.randn(COUNT, 64, generator=torch.Generator().manual_seed(0))
    static_encoder(torch.nn.functional.normalize(vectors, dim=1)).save(folder)
    return folder
