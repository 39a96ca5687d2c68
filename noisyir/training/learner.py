"""Learners: a model with its batches, optimiser and position in a schedule; and the objectives they minimise.

A model's batch and dropout at a step follow from (seed, model, step) alone, so that a checkpoint holds only positions
and tensors.
"""

import copy
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from noisyir.base.errors import ConfigError, DataError
from noisyir.training.batches import B, Batch, Batches, Rng
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.losses.npc import move_average
from noisyir.training.optimisers import learning_rate, optimiser_for
from noisyir.training.settings import TrainDprParams
from noisyir.training.throughput import Meter, Work

Tensors = Mapping[str, Mapping[str, Tensor]]  # by group, such as a model or its optimiser, and name
M = TypeVar("M", bound=nn.Module)
log = logging.getLogger("noisyir")


class Learner(Generic[B]):
    """One model that learns for `steps` steps, which may span several stages.

    name, unit: Names of the model and of a batch's items in settings, errors and metrics.
    fewer, rate: Settings that lower its memory and its learning rate.
    """

    name: str
    fewer = "chunk_size"
    unit = "lists"
    parts = 1  # equal parts of a step; a rehearsal takes one
    rate = "its learning rate"

    def __init__(self, model: nn.Module, batches: Batches[B], settings: TrainDprParams, steps: int, rng: Rng) -> None:
        self.model, self.batches, self.settings, self.rng = model, batches, settings, rng
        self.steps, self.done, self.until = steps, 0, steps
        self.optimiser = optimiser_for(model, settings)
        self.meter, self.tokens = Meter(self.unit), 0

    @property
    def prefix(self) -> str:
        """Prefix of its metrics, notes and random streams if several models learn."""
        return f"{self.name}_"

    @property
    def epoch(self) -> float:
        """Passes over the training data so far."""
        return self.done / self.batches.an_epoch

    @property
    def whole_epochs(self) -> int:
        """Complete passes so far."""
        return self.done // self.batches.an_epoch

    @property
    def finished(self) -> bool:
        """Whether the present run has no step left."""
        return self.done >= self.until

    def step(self) -> dict[str, float]:
        """Take one step and return the loss and other measures by curve.

        Raises:
            DataError: If the loss is not finite.
        """
        seed = int(self.rng(f"{self.prefix}dropout", self.done).integers(2**63))
        batch, self.tokens = self.batches[self.done], 0
        self.model.train()
        with memory_advice(self.name, self.fewer):
            measured = self.descend(batch, seed)
            loss = next(iter(measured.values()))
            if not math.isfinite(loss):
                raise DataError("training.diverged", model=self.name, loss=loss, step=self.done, rate=self.rate)
            self.optimiser.step(learning_rate(self.done, self.steps, self.settings))
            self.done += 1
            self.after_step()
        self.meter.add(Work(len(batch), self.tokens))
        return measured

    def descend(self, batch: B, seed: int) -> dict[str, float]:
        """Leave the gradient of the batch's loss in the weights, count `tokens`, return measures, the loss first."""
        raise NotImplementedError

    def start_epoch(self) -> dict[str, float]:
        """Start an epoch and return points of learning curves."""
        return {}

    def after_step(self) -> None:
        """Follow a change of the weights."""

    def end_epoch(self) -> dict[str, float]:
        """End an epoch and return points of learning curves."""
        return {}

    def finish(self) -> dict[str, float]:
        """End the run and return points of learning curves."""
        return {}

    def throughput(self) -> dict[str, Any]:
        """Return mean speeds for the build's notes."""
        return self.meter.means()

    def state(self) -> Tensors:
        """Return all that later steps depend on."""
        return {self.name: learning(self.model), **self.optimiser_state()}

    def optimiser_state(self) -> Tensors:
        """Return the part of the state that a later stage continues, besides the model."""
        return {f"{self.name}_optimiser": self.optimiser.state()}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue after `done` steps from a `state` or `optimiser_state`."""
        if self.name in tensors:
            load_weights(self.model, tensors[self.name])
        if done:
            self.optimiser.load(tensors[f"{self.name}_optimiser"])
        self.done = done


@contextmanager
def memory_advice(model: str, fewer: str) -> Iterator[None]:
    """Turn torch's out-of-memory error into a ConfigError that names settings."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise ConfigError(
            "training.out_of_memory", model=model, fewer=fewer, error=str(error).splitlines()[0]
        ) from error


class Objective:
    """A loss with hooks; `measured` are other measures of the last batch, by curve.

    A killed run continues to the same bits if `state` holds all that the next step depends on.
    """

    measured: Mapping[str, float] = MappingProxyType({})

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """Return the batch's loss from the student's scaled scores."""
        raise NotImplementedError

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Start epoch number `epoch`, from 0, and return points of learning curves."""
        return {}

    def after_step(self) -> None:
        """Follow a change of the weights."""

    def finish(self) -> None:
        """End the last epoch."""

    def state(self) -> Tensors:
        """Return its groups of a checkpoint."""
        return {}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue after `done` steps from a `state`; empty groups are absent."""


class Contrastive(Objective):
    """DPR: the mean of -log p(own passage | query) over the pairs, each times its weight (default 1)."""

    def __init__(self, weights: Float[Tensor, " pair"] | None = None) -> None:
        self.weights = weights

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """Return the weighted mean; weights do not sum to one, so a batch of doubtful pairs moves little."""
        nll = pair_nll(scores, *on_device(batch, scores.device))
        if self.weights is not None:
            nll = nll * self.weights[torch.from_numpy(batch.rows)].to(scores.device)
        return nll.mean()


def on_device(batch: Batch, device: torch.device) -> tuple[Int[Tensor, " query"], Bool[Tensor, "query passage"]]:
    """Return the batch's positive columns and ignored entries as tensors."""
    return torch.from_numpy(batch.positive).to(device), torch.from_numpy(batch.ignored).to(device)


def teacher_of(student: M) -> M:
    """Copy the student as a teacher without gradient that is to follow it."""
    return copy.deepcopy(student).eval().requires_grad_(False)


def follow(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """Move every weight's average by one step."""
    for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
        move_average(slow, fast, decay)


@torch.no_grad()
def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Load the saved trainable weights; weights that two towers share are one."""
    weights = dict(model.named_parameters())
    if missing := learning(model).keys() - saved.keys():
        raise KeyError(min(missing))
    for name, value in saved.items():
        weights[name].copy_(value)


def learning(model: nn.Module) -> dict[str, Tensor]:
    """Return the trainable weights by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
