"""What a training run trains: a model, its batches, its optimiser, and its place in a schedule of steps.

A model's batch and dropout at a step follow from (seed, model, step) alone, so that a checkpoint holds positions and
tensors only.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic

import torch
from torch import nn

from noisyir.errors import ConfigError, DataError
from noisyir.training.batches import B, Batches, Rng
from noisyir.training.checkpoint import Tensors, load_weights
from noisyir.training.optimisers import learning_rate, optimiser_for
from noisyir.training.settings import TrainDprParams
from noisyir.training.throughput import Meter, Work

_LESS = {"ranker": "lists_at_once", "retriever": "chunk_size", "reader": "questions_at_once"}


class Learner(Generic[B]):
    """One model and how it learns; the schedule of `steps` steps may span several stages.

    name: what settings and errors call the model; rate: where its learning rate is set; unit: what a batch has, in the
    names of speeds.  settings: those of the optimiser; rng: a generator for a purpose.
    done: steps taken so far; until: where the present run leaves it.
    work: `descend` says here what the step read and computed.
    """

    name: str
    unit = "lists"
    rate = "its learning rate"

    def __init__(self, model: nn.Module, batches: Batches[B], settings: TrainDprParams, steps: int, rng: Rng) -> None:
        self.model, self.batches, self.settings, self.rng = model, batches, settings, rng
        self.steps, self.done, self.until = steps, 0, steps
        self.optimiser = optimiser_for(model, settings)
        self.meter, self.work = Meter.of(next(model.parameters()).device, self.unit), Work()

    @property
    def prefix(self) -> str:
        """What the names of its speeds, its notes and its random streams begin with, where others learn beside it."""
        return f"{self.name}_"

    @property
    def epoch(self) -> float:
        """Passes over the training data so far."""
        return self.done / self.batches.an_epoch

    @property
    def whole_epochs(self) -> int:
        """Those passes that are over."""
        return self.done // self.batches.an_epoch

    @property
    def finished(self) -> bool:
        """Whether the present run has no step left for it."""
        return self.done >= self.until

    def step(self) -> dict[str, float]:
        """Descend once; returns the loss and what else was measured, by curve.  DataError when it is not finite."""
        seed = int(self.rng(f"{self.prefix}dropout", self.done).integers(2**63))
        batch, self.work = self.batches[self.done], Work()
        self.model.train()
        with memory_advice(self.name):
            measured = self.descend(batch, seed)
            loss = next(iter(measured.values()))
            if not math.isfinite(loss):
                raise DataError(
                    f"training diverged: the {self.name}'s loss is {loss} at step {self.done}; lower {self.rate}"
                )
            self.optimiser.step(learning_rate(self.done, self.steps, self.settings))
            self.done += 1
            self.after_step()
        self.meter.add(replace(self.work, pairs=len(batch)))
        return measured

    # What a kind of learner adds ----------------------------------------------------------------------------

    def descend(self, batch: B, seed: int) -> dict[str, float]:
        """Leave the gradient of the batch's loss in the weights; the loss comes first of what is returned."""
        raise NotImplementedError

    def start_epoch(self) -> dict[str, float]:
        """Called before the first step of an epoch; returns points of the learning curves, as the others do."""
        return {}

    def after_step(self) -> None:
        """Called when the weights have moved."""

    def end_epoch(self) -> dict[str, float]:
        """Called after the last step of an epoch."""
        return {}

    def finish(self) -> dict[str, float]:
        """Called when the run has no step left for it."""
        return {}

    def throughput(self) -> dict[str, Any]:
        """How fast it learnt; for the build's notes."""
        return self.meter.means()

    # Resuming -----------------------------------------------------------------------------------------------

    def state(self) -> Tensors:
        """All that later steps depend on, as a checkpoint holds it."""
        return {self.name: dict(self.model.named_parameters()), **self.optimiser_state()}

    def optimiser_state(self) -> Tensors:
        """The part of it that a later stage, which reads the model itself, goes on with."""
        return {f"{self.name}_optimiser": self.optimiser.state()}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue after `done` steps from what `state`, or `optimiser_state`, returned."""
        if self.name in tensors:
            load_weights(self.model, tensors[self.name])
        if done:
            self.optimiser.load(tensors[f"{self.name}_optimiser"])
        self.done = done


@contextmanager
def memory_advice(model: str) -> Iterator[None]:
    """Turn torch's error for want of memory into one that says what to set."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise ConfigError(
            f"a step of the {model} needs more memory than there is: set {_LESS[model]}, gradient_checkpointing=true, "
            f"precision=bf16, a smaller batch size or n ({str(error).splitlines()[0]})"
        ) from error
