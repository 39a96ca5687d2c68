"""A round of AR2 (Zhang et al., ICLR 2022, Algorithm 1): the ranker learns, then the retriever, on the same negatives.

The other model is frozen while one learns; in the retriever's steps the ranker scores in evaluation mode.  Optimisers
and schedules go on from round to round.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.base.errors import ConfigError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.ranker import Ranker
from noisyir.models.text_tokenizer import Tokens
from noisyir.training.batches import Batch, Rng, Rows
from noisyir.training.checkpoint import Checkpoint
from noisyir.training.distributed import world
from noisyir.training.gradients import BatchGradient
from noisyir.training.learner import Learner
from noisyir.training.lists import ListBatch, ListBatches, Lists
from noisyir.training.losses.ar2 import RetrieverLoss, retriever_loss
from noisyir.training.ranker import CorrectedRankerLearner, RankerLearner, list_scores
from noisyir.training.run import Point, TrainingContext, TrainingRun
from noisyir.training.settings import TrainAr2Params
from noisyir.training.validation import Held, dev_ranks, mean_reciprocal

_RECALLS = (1, 5, 20, 100)


@dataclass(frozen=True)
class Material:
    """The data of a round."""

    lists: Lists
    queries: Tokens
    passages: Tokens
    held: Held | None


class RetrieverLearner(Learner[ListBatch]):
    """The retriever, with the adversarial loss and the distillation from the ranker."""

    name = "retriever"

    def __init__(
        self, encoder: BiEncoder, ranker: Ranker, material: Material, params: TrainAr2Params, rng: Rng
    ) -> None:
        batches = ListBatches(material.lists, params.n, params.retriever_batch_size, partial(rng, "retriever_epoch"))
        steps = params.rounds * params.retriever_steps
        super().__init__(encoder, batches, params.descent(params.retriever_learning_rate), steps, rng)
        self.encoder, self.ranker, self.material, self.params = encoder, ranker, material, params
        texts = params.retriever_batch_size * (2 + params.n)
        self.gradient = BatchGradient(encoder, material.passages, params, texts)

    def descend(self, batch: ListBatch, seed: int) -> dict[str, float]:
        """The loss and its two parts; a passage in several lists is encoded once."""
        distinct, place = np.unique(batch.passages, return_inverse=True)
        columns = place.reshape(batch.passages.shape)
        self.ranker.eval()
        with torch.no_grad():
            divided = world().divide(np.ones(len(batch), np.int64))
            scores = list_scores(self.ranker, self.material.lists, batch.take(divided.own), self.params)
            judged = divided.gather(scores)
        own = torch.from_numpy(columns).to(self.encoder.device)
        is_clean = torch.from_numpy(self.material.lists.is_clean(batch)).to(self.encoder.device)
        found: list[RetrieverLoss] = []

        def loss(queries: Float[Tensor, "query dim"], passages: Float[Tensor, "passage dim"]) -> Float[Tensor, ""]:
            scores = self.params.scale * (queries @ passages.T).gather(1, own)
            weight, variant = self.params.adv_lambda, self.params.variant
            found.append(retriever_loss(scores, judged, adv_lambda=weight, variant=variant, is_clean=is_clean))
            return found[-1].total

        texts = self._texts(batch.queries, distinct, columns)
        self.tokens = len(texts.queries.ids) + len(texts.passages.ids)
        self.gradient.compute(texts, loss, seed)
        names = ("retriever_loss", "adversarial", "distillation")
        return {name: float(value.detach()) for name, value in zip(names, found[-1], strict=True)}

    def _texts(self, queries: Rows, distinct: Rows, columns: Rows) -> Batch:
        """The tokenised texts of a batch, with each query's own columns."""
        ignored = np.ones((len(queries), len(distinct)), bool)
        ignored[np.arange(len(queries))[:, None], columns] = False
        read = self.material.queries.take(queries), self.material.passages.take(distinct)
        return Batch(queries, *read, columns[:, 0], ignored, distinct)

    def start_epoch(self) -> dict[str, float]:
        """Rank the dev queries before the first step of all rounds."""
        return {} if self.done else self.finish()

    def finish(self) -> dict[str, float]:
        """Rank the dev queries, if there are any; R@k is the share with a relevant passage among the first k."""
        if self.material.held is None:
            return {}
        ranks = dev_ranks(self.encoder, self.material.held)
        recall = {f"dev_r@{k}": float((ranks <= k).float().mean()) for k in _RECALLS}
        return {"dev_mrr@10": mean_reciprocal(ranks), **recall}


def both_learners(
    encoder: BiEncoder, ranker: Ranker, material: Material, params: TrainAr2Params, rng: Rng
) -> tuple[RankerLearner, RetrieverLearner]:
    """The ranker's learner, then the retriever's."""
    of_ranker = (CorrectedRankerLearner if params.flagged == "soft" else RankerLearner)(
        ranker, material.lists, params, rng,
        batch_size=params.ranker_batch_size, learning_rate=params.ranker_learning_rate,
        steps=params.rounds * params.ranker_steps,
    )  # fmt: skip
    return of_ranker, RetrieverLearner(encoder, ranker, material, params, rng)


def train_round(
    encoder: BiEncoder,
    ranker: Ranker,
    material: Material,
    params: TrainAr2Params,
    context: TrainingContext,
    earlier: Checkpoint | None,
) -> tuple[list[Point], Checkpoint]:
    """Train both models in place; returns the learning curves, and the next round's `earlier`.

    Raises:
        ConfigError: If all rounds are over.
        DataError: If a loss is not finite.
    """
    learners = both_learners(encoder, ranker, material, params, context.rng)
    for learner in learners:
        if earlier is not None:
            learner.load(earlier.tensors, earlier.progress[learner.name])
        learner.until = learner.done + learner.steps // params.rounds
        if learner.until > learner.steps:
            raise ConfigError(
                "methods.ar2_rounds_over",
                learner=learner.name,
                done=learner.done,
                steps=learner.steps,
                rounds=params.rounds,
            )
    curves = TrainingRun(learners, context).run()
    tensors = {name: state for learner in learners for name, state in learner.optimiser_state().items()}
    return curves, Checkpoint(tensors, {learner.name: learner.done for learner in learners})
