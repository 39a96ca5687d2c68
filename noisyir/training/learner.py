"""A learner of a training run: a model, its batches, its optimiser, and its place in a schedule of steps.

A model's batch and dropout at a step follow from (seed, model, step) alone, so that a checkpoint holds positions and
tensors only.
"""

import copy
import hashlib
import json
import logging
import math
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from noisyir.base.errors import ConfigError, DataError
from noisyir.training.batches import B, Batch, Batches, Rng
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.losses.npc import move_average
from noisyir.training.optimisers import learning_rate, optimiser_for
from noisyir.training.settings import TrainDprParams
from noisyir.training.throughput import Meter, Work

Tensors = Mapping[str, Mapping[str, Tensor]]


"""Tensors by group, as a model or its optimiser, and name."""


class Learner(Generic[B]):
    """One model and how it learns; the schedule of `steps` steps may span several stages.

    name: what settings and errors call the model; fewer: the setting by which less passes through it at once; rate:
    where its learning rate is set; unit: what a batch has, in the names of speeds.  settings: those of the optimiser;
    rng: a generator for a purpose.
    """

    name: str
    fewer = "chunk_size"
    unit = "lists"
    parts = 1  # equal ones of a step, of which a rehearsal takes one
    rate = "its learning rate"

    def __init__(self, model: nn.Module, batches: Batches[B], settings: TrainDprParams, steps: int, rng: Rng) -> None:
        self.model, self.batches, self.settings, self.rng = model, batches, settings, rng
        self.steps, self.done, self.until = steps, 0, steps
        self.optimiser = optimiser_for(model, settings)
        self.meter, self.work = Meter.of(next(model.parameters()).device, self.unit), Work()

    @property
    def prefix(self) -> str:
        """Prefix of the names of its speeds, its notes and its random streams, where others learn beside it."""
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
        with memory_advice(self.name, self.fewer):
            measured = self.descend(batch, seed)
            loss = next(iter(measured.values()))
            if not math.isfinite(loss):
                raise DataError(
                    "training.training_diverged_loss_step", name=self.name, loss=loss, done=self.done, rate=self.rate
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
        return {self.name: learning(self.model), **self.optimiser_state()}

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
def memory_advice(model: str, fewer: str) -> Iterator[None]:
    """Turn torch's error for want of memory into one that says what to set."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise ConfigError(
            "training.step_needs_more_memory", model=model, fewer=fewer, splitlines=str(error).splitlines()[0]
        ) from error


M = TypeVar("M", bound=nn.Module)


class Objective:
    """A loss, and hooks that a plain method leaves alone.

    A killed run continues to the same bits if `state` holds all that the next step depends on.
    measured: of the last batch, by learning curve.
    """

    measured: Mapping[str, float] = MappingProxyType({})

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The batch's loss from the student's scaled scores of its queries and columns."""
        raise NotImplementedError

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Called before epoch number `epoch`, from 0; returns points of the learning curves."""
        return {}

    def observe(self, loss: float) -> None:
        """Called with each step's loss, in nats."""

    def after_step(self) -> None:
        """Called when the weights have moved."""

    def finish(self) -> None:
        """Called when the last epoch is over."""

    def state(self) -> Tensors:
        """Its part of a checkpoint, in groups of its own."""
        return {}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue after `done` steps from a checkpoint with what `state` returned; an empty group is not in it."""


class Contrastive(Objective):
    """DPR: the mean of -log p(own passage | query) over the pairs, each times its weight (default 1)."""

    def __init__(self, weights: Float[Tensor, " pair"] | None = None) -> None:
        self.weights = weights

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The weighted mean; weights do not add up to one, so that a batch of doubtful pairs moves little."""
        nll = pair_nll(scores, *on_device(batch, scores.device))
        if self.weights is not None:
            nll = nll * self.weights[torch.from_numpy(batch.rows)].to(scores.device)
        return nll.mean()


def on_device(batch: Batch, device: torch.device) -> tuple[Int[Tensor, " query"], Bool[Tensor, "query passage"]]:
    """The batch's positive columns and ignored entries as tensors."""
    return torch.from_numpy(batch.positive).to(device), torch.from_numpy(batch.ignored).to(device)


def teacher_of(student: M) -> M:
    """A copy to follow its student slowly, without a gradient of its own; it agrees with it for now."""
    return copy.deepcopy(student).eval().requires_grad_(False)


def follow(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """Move every weight's average by one step."""
    for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
        move_average(slow, fast, decay)


log = logging.getLogger("noisyir")


CHECKPOINT = "checkpoint.safetensors"


_DIGEST = "digest"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run; progress: what JSON can hold."""

    tensors: Tensors
    progress: Mapping[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the state; the previous one is valid until the new one is on the disk."""
    flat = {
        f"{group}/{name}": value.detach().contiguous()
        for group, named in checkpoint.tensors.items()
        for name, value in named.items()
    }
    arriving = folder / f"{CHECKPOINT}.arriving"
    progress = json.dumps(checkpoint.progress)
    # The digest is a tensor, for a second entry of metadata would stand before or after the first by chance.
    save_file(flat | {_DIGEST: _digest(flat, progress)}, arriving, {"progress": progress})
    with arriving.open("rb") as handle:
        os.fsync(handle.fileno())
    arriving.replace(folder / CHECKPOINT)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The state a killed run left, on the CPU; None when there is none, or a damaged one, which is told of."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            flat = {key: file.get_tensor(key) for key in file.keys()}
            progress = file.metadata()["progress"]
        digest = flat.pop(_DIGEST)
        if not torch.equal(digest, _digest(flat, progress)):
            raise ValueError("it has other bytes than were written")
        tensors: dict[str, dict[str, Tensor]] = {}
        for key, value in flat.items():
            group, name = key.split("/", 1)
            tensors.setdefault(group, {})[name] = value
        return Checkpoint(tensors, json.loads(progress))
    except (SafetensorError, ValueError, KeyError, TypeError, struct.error) as error:
        log.warning("the checkpoint %s is damaged, and training starts again: %s", path, error)
        return None


def _digest(flat: Mapping[str, Tensor], progress: str) -> UInt8[Tensor, "32"]:
    """One sha256 over the state: names, types, shapes and bytes of all tensors, and the progress."""
    total = hashlib.sha256(progress.encode())
    for name in sorted(flat):
        value = flat[name].cpu()
        total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return torch.frombuffer(bytearray(total.digest()), dtype=torch.uint8)


@torch.no_grad()
def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give the model the saved values of its weights, of all that learn; those that two towers share are one."""
    weights = dict(model.named_parameters())
    if missing := learning(model).keys() - saved.keys():
        raise KeyError(min(missing))
    for name, value in saved.items():
        weights[name].copy_(value)


def learning(model: nn.Module) -> dict[str, Tensor]:
    """The weights that training moves, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
