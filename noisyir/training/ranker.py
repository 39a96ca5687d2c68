"""The ranker learns to tell a query's right passage from its negatives (AR2's Eq. 7; its warm-up, too)."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.config import RankingParams, WarmUpRankerParams
from noisyir.losses.ar2 import ranker_loss
from noisyir.models.ranker import Ranker
from noisyir.training.gradients import seeded
from noisyir.training.lists import ListBatch, ListBatches, Lists
from noisyir.training.optimisers import DenseAdamW
from noisyir.training.phases import Learner, Phases
from noisyir.training.run import Point, Surroundings


class RankerLearner(Learner[ListBatch]):
    """The ranker, descending on the cross-entropy of the right passage among 1 + n."""

    name = "ranker"

    def __init__(
        self,
        ranker: Ranker,
        lists: Lists,
        params: RankingParams,
        around: Surroundings,
        *,
        batch_size: int,
        learning_rate: float,
        steps: int,
    ) -> None:
        settings = params.descent(learning_rate)
        optimiser = DenseAdamW(
            list(ranker.parameters()),
            clip_norm=settings.clip_norm,
            weight_decay=settings.weight_decay,
            betas=settings.betas,
        )
        batches = ListBatches(lists, params.n, batch_size, partial(around.rng, "ranker_epoch"))
        super().__init__(ranker, optimiser, batches, settings, steps, around)
        self.ranker, self.lists, self.params = ranker, lists, params
        if params.gradient_checkpointing:
            keep_fewer_activations(ranker.model)

    def descend(self, batch: ListBatch, seed: int) -> dict[str, float]:
        """The mean loss, and the share of lists whose right passage scores highest.

        `lists_at_once` of them pass through the model, and add their gradient, before the next.
        """
        loss, first = 0.0, 0
        at_once = self.params.lists_at_once or len(batch)
        self.ranker.train()
        with seeded(self.ranker.device, seed):
            for rows in np.array_split(np.arange(len(batch)), math.ceil(len(batch) / at_once)):
                scores = list_scores(self.ranker, self.lists, batch.take(rows), self.params)
                part = ranker_loss(scores).sum() / len(batch)
                part.backward()  # type: ignore[no-untyped-call]
                loss += float(part.detach())
                first += int((scores[:, :1] > scores[:, 1:]).all(dim=1).sum())
        return {"ranker_loss": loss, "ranker_accuracy": first / len(batch)}


def list_scores(ranker: Ranker, lists: Lists, batch: ListBatch, params: RankingParams) -> Float[Tensor, "list passage"]:
    """The ranker's scores of each list's passages, times tau."""
    queries = lists.queries.take(np.repeat(batch.queries, batch.passages.shape[1])).to_pylist()
    passages = lists.passages.take(batch.passages.ravel()).to_pylist()
    with torch.autocast(ranker.device.type, torch.bfloat16, enabled=params.precision == "bf16"):
        scores: Tensor = ranker(queries, passages)
    return params.ranker_scale * scores.view(batch.passages.shape)


def keep_fewer_activations(model: Any) -> None:
    """Let a Hugging Face model compute its activations anew in the backward pass; the gradient is the same."""
    # the second name is that of transformers 4
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def warm_up(ranker: Ranker, lists: Lists, params: WarmUpRankerParams, around: Surroundings) -> list[Point]:
    """Train the ranker in place and return its learning curves.  DataError when the loss is no longer finite."""
    steps = params.epochs * math.ceil(len(lists) / params.batch_size)
    if params.max_steps is not None:
        steps = min(steps, params.max_steps)
    learner = RankerLearner(
        ranker, lists, params, around,
        batch_size=params.batch_size, learning_rate=params.learning_rate, steps=steps,
    )  # fmt: skip
    return Phases([(learner, steps)], around).run()
