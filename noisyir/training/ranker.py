"""Training of the ranker to rank a query's positive over its negatives (AR2's Eq. 7 and warm-up)."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.models.at_once import AtOnce, keep_fewer_activations
from noisyir.models.ranker import Ranker
from noisyir.training.batches import Rng
from noisyir.training.distributed import world
from noisyir.training.gradients import seeded
from noisyir.training.learner import Learner, Tensors, follow, load_weights, teacher_of
from noisyir.training.lists import ListBatch, ListBatches, Lists
from noisyir.training.losses.ar2 import ranker_loss
from noisyir.training.losses.dpr import pointwise_loss
from noisyir.training.losses.npc import npc_loss
from noisyir.training.run import Point, TrainingContext, TrainingRun
from noisyir.training.settings import RankingParams, TrainAr2Params, WarmUpRankerParams

ListLoss = Callable[[Float[Tensor, "list passage"]], Float[Tensor, " list"]]
LOSSES: Mapping[str, ListLoss] = {"listwise": ranker_loss, "pointwise": pointwise_loss}


class RankerLearner(Learner[ListBatch]):
    """The ranker, minimising the mean loss of lists of 1 + n passages."""

    name, fewer = "ranker", "lists_at_once"

    def __init__(
        self,
        ranker: Ranker,
        lists: Lists,
        params: RankingParams,
        rng: Rng,
        *,
        batch_size: int,
        learning_rate: float,
        steps: int,
        loss: ListLoss = ranker_loss,
    ) -> None:
        batches = ListBatches(lists, params.n, batch_size, partial(rng, "ranker_epoch"))
        super().__init__(ranker, batches, params.descent(learning_rate), steps, rng)
        self.ranker, self.lists, self.params, self.loss = ranker, lists, params, loss
        if params.gradient_checkpointing:
            keep_fewer_activations(ranker.transformers)
        self.at_once = AtOnce(params.lists_at_once, batch_size, again=world().alone)
        self.at_once.fit(ranker, self._probe)

    def losses(self, scores: Float[Tensor, "list passage"], batch: ListBatch) -> Float[Tensor, " list"]:
        """Return the loss of each list from the ranker's scores."""
        return self.loss(scores)

    def _probe(self, count: int) -> None:
        """Pass `count` lists of the longest texts forward and back."""
        query, passage = (
            int(np.argmax(pc.utf8_length(texts).to_numpy())) for texts in (self.lists.queries, self.lists.passages)
        )
        batch = ListBatch(np.full(count, query), np.full((count, 1 + self.params.n), passage))
        with seeded(self.ranker.device, 0):
            list_scores(self.ranker, self.lists, batch, self.params).sum().backward()  # type: ignore[no-untyped-call]

    def descend(self, batch: ListBatch, seed: int) -> dict[str, float]:
        """Compute the mean loss, and the share of lists with the positive on top.

        `lists_at_once` lists pass at a time and add their gradient; each of several processes has its own lists.
        """
        while True:
            try:
                return self._descend(batch, seed, self.at_once.size)
            except torch.OutOfMemoryError:
                if not self.at_once.can_shrink:
                    raise
            self.ranker.zero_grad(set_to_none=True)
            self.at_once.shrink()

    def _descend(self, batch: ListBatch, seed: int, size: int | None) -> dict[str, float]:
        loss, first, self.tokens = 0.0, 0.0, 0
        here = world()
        own = here.divide(np.ones(len(batch), np.int64)).own
        at_once = size or len(batch)
        with seeded(self.ranker.device, seed, *here.stream):
            for rows in np.array_split(own, math.ceil(len(own) / at_once)) if len(own) else ():
                scores = list_scores(self.ranker, self.lists, batch.take(rows), self.params)
                self.tokens += int(self.ranker.lengths.sum()) * here.size
                part = self.losses(scores, batch.take(rows)).sum() / len(batch)
                part.backward()  # type: ignore[no-untyped-call]
                loss += float(part.detach())
                first += float((scores[:, :1] > scores[:, 1:]).all(dim=1).sum())
        here.sum_gradients(self.ranker.parameters())
        loss, first = here.total(loss, first)
        return {"ranker_loss": loss, "ranker_accuracy": first / len(batch)}


class CorrectedRankerLearner(RankerLearner):
    """AR2's ranker by noisy pair correction (Zhang et al., Findings of EMNLP 2023, Eq. 5 to 9, over lists).

    The teacher, a moving average of the ranker's weights, goes on from round to round.  The loss is
    is_clean * -log p_phi(d | q; D_q) + KL(teacher || ranker).
    """

    params: TrainAr2Params

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.teacher = teacher_of(self.ranker)

    def losses(self, scores: Float[Tensor, "list passage"], batch: ListBatch) -> Float[Tensor, " list"]:
        """Return Eq. 9 with a list as the batch's passages."""
        with torch.no_grad():
            taught = list_scores(self.teacher, self.lists, batch, self.params)
        positive = torch.zeros(len(batch), dtype=torch.int64, device=scores.device)
        ignored = torch.zeros_like(scores, dtype=torch.bool)
        trust = torch.from_numpy(self.lists.is_clean(batch)).to(scores.device).float()
        return npc_loss(scores, taught, positive, ignored, trust, weight=1.0, direction="teacher_student")

    def after_step(self) -> None:
        """Update the teacher."""
        follow(self.teacher, self.ranker, self.params.teacher_decay)

    def optimiser_state(self) -> Tensors:
        """Return the optimiser and the teacher, which the next round continues."""
        return {**super().optimiser_state(), "ranker_teacher": dict(self.teacher.named_parameters())}

    def load(self, tensors: Tensors, done: int) -> None:
        """Load the ranker and the teacher."""
        super().load(tensors, done)
        load_weights(self.teacher, tensors["ranker_teacher"])


def list_scores(ranker: Ranker, lists: Lists, batch: ListBatch, params: RankingParams) -> Float[Tensor, "list passage"]:
    """Return the ranker's scores of each list's passages, times tau."""
    if not len(batch):
        return torch.zeros(batch.passages.shape, device=ranker.device)
    queries = lists.queries.take(np.repeat(batch.queries, batch.passages.shape[1])).to_pylist()
    passages = lists.passages.take(batch.passages.ravel()).to_pylist()
    with torch.autocast(ranker.device.type, torch.bfloat16, enabled=params.precision == "bf16"):
        scores: Tensor = ranker(queries, passages)
    return params.ranker_scale * scores.view(batch.passages.shape)


def warming_up(ranker: Ranker, lists: Lists, params: WarmUpRankerParams, rng: Rng) -> RankerLearner:
    """Build the learner of a ranker that trains alone."""
    steps = params.epochs * math.ceil(len(lists) / params.batch_size)
    if params.max_steps is not None:
        steps = min(steps, params.max_steps)
    return RankerLearner(
        ranker, lists, params, rng,
        batch_size=params.batch_size, learning_rate=params.learning_rate, steps=steps, loss=LOSSES[params.loss],
    )  # fmt: skip


def warm_up(ranker: Ranker, lists: Lists, params: WarmUpRankerParams, context: TrainingContext) -> list[Point]:
    """Train the ranker in place and return its learning curves."""
    return TrainingRun([warming_up(ranker, lists, params, context.rng)], context).run()


def trained_apart(
    start: Ranker, lists: Lists, fold: int, params: WarmUpRankerParams, context: TrainingContext
) -> Ranker:
    """Train a copy of `start` on lists without the fold that it is to score; a killed run resumes."""
    work = context.work / f"fold{fold}"
    work.mkdir(parents=True, exist_ok=True)
    ranker = copy.deepcopy(start)
    warm_up(ranker, lists, params, replace(context, work=work, metric=lambda *_: None))
    return ranker.eval()
