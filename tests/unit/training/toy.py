"""A toy task that a tiny model can learn: query i and its passage share a word of their own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.run import TrainingContext
from noisyir.training.validation import Held

SIZE = 24

Metric = Callable[[str, float, int], None]


def toy_texts() -> tuple[list[str], list[str]]:
    queries = [f"w{i} w{40 + i % 7}" for i in range(SIZE)]
    return queries, [f"w{(i + SIZE) % 60} w{50 + i % 9} w{i} w{48 + i % 5}" for i in range(SIZE)]


def toy_pairs(encoder: BiEncoder, *, negatives: int = 0) -> TrainingPairs:
    """`negatives` mined ones for every query but the last, which has none."""
    queries, passages = toy_texts()
    rows = np.arange(SIZE)
    keys = np.repeat(rows[:-1], negatives)
    mined = (keys + 1 + np.tile(np.arange(negatives), SIZE - 1)) % SIZE
    return TrainingPairs(
        rows, rows, rows, Ragged.grouped(rows, rows, SIZE), Ragged.grouped(keys, mined, SIZE),
        encoder.tokenize(queries, "query"), encoder.tokenize(passages, "passage"),
    )  # fmt: skip


def toy_held(encoder: BiEncoder) -> Held:
    queries, passages = toy_texts()
    rows = np.arange(SIZE)
    relevant = Ragged.grouped(rows, rows, SIZE)
    return Held(encoder.tokenize(queries, "query"), encoder.tokenize(passages, "passage"), relevant)


def training_context(
    work: Path, *, seed: int = 0, checkpoint_seconds: float = 1e9, metric: Metric = lambda *_: None
) -> TrainingContext:
    def rng(*purpose: str | int) -> np.random.Generator:
        return np.random.default_rng([seed, *"/".join(map(str, purpose)).encode()])

    return TrainingContext(rng, work, checkpoint_seconds, lambda *_: None, metric)
