"""Models that learn by turns: each takes its steps on its own schedule while the others stand still.

A run can be killed at any point and continued to the same bits: a model's batch and dropout at a step follow from
(seed, model, step) alone, so a checkpoint holds positions and tensors only.
"""

import math
import time
from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from noisyir.errors import DataError
from noisyir.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from noisyir.training.distributed import world
from noisyir.training.memory import memory_advice
from noisyir.training.optimisers import Optimiser, learning_rate
from noisyir.training.run import Point, Surroundings, note_resumed
from noisyir.training.settings import TrainDprParams
from noisyir.training.throughput import Meter, Work

_POINTS = 400  # of a curve, at most


B = TypeVar("B", bound=Sized)
B_co = TypeVar("B_co", bound=Sized, covariant=True)


class Batches(Protocol[B_co]):
    """Batches without end, by their number from 0; `an_epoch` of them are one pass over what is learnt from."""

    an_epoch: int

    def __getitem__(self, number: int) -> B_co:
        """Batch `number`."""


class Learner(Generic[B]):
    """One model, its optimiser, and its place in a schedule of `steps` steps that may span several stages.

    name: what settings and curves call it; settings: those of its optimiser; done: steps taken so far.
    unit: what a batch has, in the names of rates; work: `descend` says here what the step read and computed.
    """

    name: str
    unit = "lists"

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimiser,
        batches: Batches[B],
        settings: TrainDprParams,
        steps: int,
        around: Surroundings,
    ) -> None:
        self.model, self.optimiser, self.batches, self.settings = model, optimiser, batches, settings
        self.steps, self.around, self.done = steps, around, 0
        self.meter, self.work = Meter.of(next(model.parameters()).device, self.unit), Work()

    def descend(self, batch: B, seed: int) -> dict[str, float]:
        """Leave the gradient of the batch's loss in the weights; the loss comes first of what is returned."""
        raise NotImplementedError

    def step(self) -> dict[str, float]:
        """Descend once; returns the loss and what else was measured, by curve."""
        seed = int(self.around.rng(f"{self.name}_dropout", self.done).integers(2**63))
        batch, self.work = self.batches[self.done], Work()
        with memory_advice(self.name):
            measured = self.descend(batch, seed)
            loss = next(iter(measured.values()))
            if not math.isfinite(loss):
                raise DataError(
                    f"training diverged: the {self.name}'s loss is {loss} at step {self.done}; lower its learning rate"
                )
            self.optimiser.step(learning_rate(self.done, self.steps, self.settings))
        self.meter.add(replace(self.work, pairs=len(batch)))
        self.done += 1
        return measured

    @property
    def epoch(self) -> float:
        """Passes over the training queries so far."""
        return self.done / self.batches.an_epoch

    def state(self) -> dict[str, Mapping[str, Tensor]]:
        """Weights and optimiser, as a checkpoint holds them."""
        return {self.name: dict(self.model.named_parameters()), **self.optimiser_state()}

    def optimiser_state(self) -> dict[str, Mapping[str, Tensor]]:
        """The optimiser alone."""
        return {f"{self.name}_optimiser": self.optimiser.state()}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Mapping[str, Tensor]], done: int) -> None:
        """Continue after `done` steps from what `state`, or `optimiser_state` returned."""
        for name, weight in self.model.named_parameters() if self.name in tensors else ():
            weight.copy_(tensors[self.name][name])
        if done:
            self.optimiser.load(tensors[f"{self.name}_optimiser"])
        self.done = done


class Phases:
    """Learners one after the other, each until it has taken so many steps; the curves are kept."""

    def __init__(self, phases: Sequence[tuple[Learner[Any], int]], around: Surroundings) -> None:
        self.phases, self.around = phases, around
        self.curves: list[Point] = []
        self._recent: dict[str, list[float]] = {}
        self._to_do = sum(end - learner.done for learner, end in phases)
        self._windows = {learner.name: math.ceil((end - learner.done) / _POINTS) for learner, end in phases}
        self._saved = time.monotonic()

    def run(self) -> list[Point]:
        """Take all steps that are still to be taken, and return the learning curves."""
        self._resume()
        for learner, end in self.phases:
            learner.meter.restart()
            while learner.done < end:
                self._record(learner, learner.step(), last=learner.done == end)
                self._checkpoint_if_due()
            learner.model.eval()
            world().check_agreement(learner.model.parameters())
            self.around.note(f"{learner.name}_throughput", learner.meter.means())
        return self.curves

    def _record(self, learner: Learner[Any], measured: Mapping[str, float], *, last: bool) -> None:
        """Add to each curve the mean of the last few steps, so that it has at most a few hundred points."""
        for name, value in measured.items():
            self._recent.setdefault(name, []).append(value)
        if last or len(self._recent[next(iter(measured))]) >= self._windows[learner.name]:
            for name, values in self._recent.items():
                self.point(name, learner, sum(values) / len(values))
            for name, rate in learner.meter.rates().items():
                self.around.metric(f"{learner.name}_{name}", rate, learner.done)
            self._recent = {}
            left = sum(end - other.done for other, end in self.phases)
            self.around.progress(self._to_do - left, self._to_do, "steps")

    def point(self, name: str, learner: Learner[Any], value: float) -> None:
        """Add a value to a curve."""
        self.curves.append((name, learner.done, learner.epoch, value))
        self.around.metric(name, value, learner.done)

    # Resuming -----------------------------------------------------------------------------------------------

    def _checkpoint_if_due(self) -> None:
        if not world().leads or time.monotonic() - self._saved < self.around.checkpoint_seconds:
            return
        tensors = {name: held for learner, _ in self.phases for name, held in learner.state().items()}
        done = {learner.name: learner.done for learner, _ in self.phases}
        progress: dict[str, Any] = {
            "done": done,
            "curves": self.curves,
            "recent": self._recent,
            "processes": world().size,
        }
        save_checkpoint(self.around.work, Checkpoint(tensors, progress))
        self._saved = time.monotonic()

    def _resume(self) -> None:
        """Continue from the checkpoint that a killed run of the same stage and inputs left, if it did."""
        if (found := load_checkpoint(self.around.work)) is None:
            return
        note_resumed(self.around, found.progress.get("processes", 1))
        for learner, _ in self.phases:
            learner.load(found.tensors, found.progress["done"][learner.name])
        self.curves = [(name, step, epoch, value) for name, step, epoch, value in found.progress["curves"]]
        self._recent = found.progress["recent"]
