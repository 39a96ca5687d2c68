"""Training of a bi-encoder on pairs: epochs of batches, dev after each, the best model kept.

An `Objective` is minimised: DPR's contrastive loss or a correction for noisy pairs, with `ccr.beta` regularised
by contrastive confidence (Wang et al., AAAI 2024, Eq. 8).
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from noisyir.base.errors import ConfigError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import Batch, PairBatches, Rng, TrainingPairs
from noisyir.training.gradients import BatchGradient
from noisyir.training.learner import Learner, Objective, Tensors, learning, load_weights, on_device
from noisyir.training.losses.dpr import ccr, masked_log_probs, robust_loss
from noisyir.training.run import Point, TrainingContext, TrainingRun
from noisyir.training.settings import TrainDprParams
from noisyir.training.validation import Held, dev_mrr

_LARGEST_BETA_OF_DOT = 1e-2


class BiEncoderLearner(Learner[Batch]):
    """A retriever that minimises an objective; with `patience` it stops early, at its best dev MRR@10."""

    name, unit, prefix, rate = "retriever", "pairs", "", "train.learning_rate"

    def __init__(
        self,
        encoder: BiEncoder,
        pairs: TrainingPairs,
        held: Held | None,
        params: TrainDprParams,
        objective: Objective,
        rng: Rng,
    ) -> None:
        batches = PairBatches(pairs, params.batch_size, params.hard_negatives, partial(rng, "epoch"), params.pool)
        super().__init__(encoder, batches, params, params.epochs * batches.an_epoch, rng)
        self.encoder, self.held, self.params, self.objective = encoder, held, params, objective
        self.gradient = BatchGradient(encoder, pairs.passages, params, params.batch_size * (2 + params.hard_negatives))
        self.best: dict[str, Tensor] = {}
        self._best_dev, self._best_epoch = -1.0, 0

    @property
    def finished(self) -> bool:
        """Whether all epochs are over, or `patience` epochs since the best dev value."""
        patience = self.params.patience
        return super().finished or (patience is not None and self.whole_epochs - self._best_epoch >= patience)

    def descend(self, batch: Batch, seed: int) -> dict[str, float]:
        """Compute the objective's gradient on the batch, regularised by this epoch's `ccr.beta`."""
        beta = self.params.ccr.at(self.whole_epochs)

        def loss(queries: Float[Tensor, "query dim"], passages: Float[Tensor, "passage dim"]) -> Float[Tensor, ""]:
            values = []
            for some, others in zip(*(self._cut(vectors) for vectors in (queries, passages)), strict=True):
                scores = self.params.scale * some @ others.T
                value = self.objective.loss(batch, scores)
                values.append(regularised(value, batch, scores, beta) if beta else value)
            return torch.stack(values).mean() if len(values) > 1 else values[0]

        self.tokens = len(batch.queries.ids) + len(batch.passages.ids)
        value = self.gradient.compute(batch, loss, seed)
        return {"train_loss": value, **self.objective.measured}

    def _cut(self, vectors: Float[Tensor, "text dim"]) -> list[Float[Tensor, "text cut"]]:
        """Return the vectors at each length of `matryoshka`, then whole (Kusupati et al., NeurIPS 2022, Eq. 1)."""
        cut = [vectors[:, :length] for length in self.params.matryoshka]
        if self.encoder.similarity == "cosine":
            cut = [functional.normalize(some, dim=1) for some in cut]
        return [*cut, vectors]

    def start_epoch(self) -> dict[str, float]:
        """Notify the objective."""
        return self.objective.start_epoch(self.whole_epochs)

    def after_step(self) -> None:
        """Notify the objective."""
        self.objective.after_step()

    def end_epoch(self) -> dict[str, float]:
        """Rank the dev queries; with `patience`, keep the weights of the best epoch."""
        if self.held is None:
            return {}
        value = dev_mrr(self.encoder, self.held)
        if value > self._best_dev:
            self._best_dev, self._best_epoch = value, self.whole_epochs
            if self.params.patience is not None:
                self.best = {name: weight.detach().clone() for name, weight in learning(self.encoder).items()}
        return {"dev_mrr@10": value}

    def finish(self) -> dict[str, float]:
        """Restore the best weights if `patience` kept them, else let the objective choose."""
        if self.best:
            load_weights(self.encoder, self.best)
        else:
            self.objective.finish()
        return {}

    def throughput(self) -> dict[str, Any]:
        """Add the number of texts that passed through a tower at once."""
        return {**super().throughput(), "chunk_size": self.gradient.chunks.size}

    def state(self) -> Tensors:
        """Add the objective's state and the best dev epoch."""
        dev = {"mrr": torch.tensor(self._best_dev, dtype=torch.float64), "epoch": torch.tensor(self._best_epoch)}
        return {**super().state(), **self.objective.state(), "best": self.best, "best_dev": dev}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue after `done` steps from a `state`."""
        super().load(tensors, done)
        self.objective.load(tensors, done)
        self.best = dict(tensors.get("best", {}))
        dev = tensors["best_dev"]
        self._best_dev, self._best_epoch = float(dev["mrr"]), int(dev["epoch"])


def train(
    encoder: BiEncoder,
    pairs: TrainingPairs,
    held: Held | None,
    params: TrainDprParams,
    objective: Objective,
    context: TrainingContext,
) -> list[Point]:
    """Train `encoder` in place and return its learning curves.

    Raises:
        DataError: If the loss is no longer finite.
        ConfigError: If patience lacks dev queries, a query has no competitor, or the regulariser cannot work.
    """
    check_regulariser(params, encoder.similarity)
    if params.patience is not None and held is None:
        raise ConfigError("training.patience_without_dev", patience=params.patience)
    if params.pool == "own" and params.hard_negatives == 0:
        raise ConfigError("training.own_pool_is_empty")
    if beyond := [length for length in params.matryoshka if length >= encoder.dim]:
        raise ConfigError(
            "training.matryoshka_too_long", matryoshka=list(params.matryoshka), dim=encoder.dim, length=beyond[0]
        )
    curves = TrainingRun([BiEncoderLearner(encoder, pairs, held, params, objective, context.rng)], context).run()
    encoder.shape = replace(encoder.shape, matryoshka=tuple(sorted(params.matryoshka)))
    return curves


def check_regulariser(params: TrainDprParams, similarity: str) -> None:
    """Refuse, with a ConfigError, a regulariser that never applies or that leaves the loss without a lower bound."""
    settings, largest = params.ccr, max(map(params.ccr.at, range(params.epochs)))
    if settings.beta == 0.0:
        return
    if largest == 0.0:
        raise ConfigError(
            "training.ccr_never_applies", from_epoch=settings.from_epoch, epochs=params.epochs, last=params.epochs - 1
        )
    if similarity == "dot" and largest > _LARGEST_BETA_OF_DOT and not settings.force:
        raise ConfigError("training.ccr_unbounded", beta=largest)


def regularised(
    loss: Float[Tensor, ""], batch: Batch, scores: Float[Tensor, "query passage"], beta: float
) -> Float[Tensor, ""]:
    """Return the loss less beta times the mean CCR, in which every query counts alike."""
    _, ignored = on_device(batch, scores.device)
    return robust_loss(loss, ccr(masked_log_probs(scores, ignored), ignored).mean(), beta)
