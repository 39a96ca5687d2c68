"""The toy task with lists: those of query i hold its passage and others, and a teacher's scores of them."""

from typing import Any

import numpy as np
from torch import Tensor

from noisyir.methods.distill.objective import Distillation
from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import ListedPairs, Ragged
from noisyir.training.settings import TrainDistillParams
from tests.unit.training.toy import SIZE, toy_pairs

LISTED = 4
BOTH = {"contrastive": 0.5, "mask": "teacher", "share_of_top": 0.9}


def listed_pairs(encoder: BiEncoder) -> ListedPairs:
    """Lists of 4, the own passage among them; query 1 has a list without its own, and query 2 one of two."""
    pairs = toy_pairs(encoder)
    query = np.repeat(np.arange(SIZE), LISTED)
    passage = (query + np.tile(np.arange(LISTED), SIZE) * 5) % SIZE
    score = np.random.default_rng(0).normal(0, 3, len(query)) + 4 * (query == passage)
    kept = ~((query == 1) & (passage == 1)) & ~((query == 2) & (np.arange(len(query)) % LISTED > 1))
    lists = Ragged.grouped(query[kept], passage[kept], SIZE)
    return ListedPairs(**{**vars(pairs), "negatives": lists}, score=score[kept])


def settings(distill: dict[str, Any] | None = None, **train: Any) -> TrainDistillParams:
    usual = {"epochs": 3, "batch_size": 7, "learning_rate": 0.01, "hard_negatives": LISTED - 1}
    return TrainDistillParams(**{**usual, **train}, distill={"contrastive": 0.0, **(distill or {})})


def distillation(
    encoder: BiEncoder, params: TrainDistillParams, weights: Tensor | None = None
) -> tuple[ListedPairs, Distillation]:
    pairs = listed_pairs(encoder)
    return pairs, Distillation(pairs, params, weights)
