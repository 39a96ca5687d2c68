"""Training, told from top to bottom: epochs of batches, a step each, a look at dev, and the best model kept.

What is descended on is an `Objective`: DPR's contrastive loss, or a correction of it for noisy pairs.

A run can be killed at any point and continued to the same bits: the order of the pairs, the hard negatives and the
dropout of a step follow from (seed, epoch) and (seed, step) alone, so a checkpoint holds positions and tensors only.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from noisyir.errors import ConfigError, DataError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.compiling import keep_fewer_activations
from noisyir.training.batches import Batch, Epoch, TrainingPairs, batch_count
from noisyir.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from noisyir.training.distributed import world
from noisyir.training.gradients import backward, cached_backward, chunks_for
from noisyir.training.memory import memory_advice
from noisyir.training.objective import Objective
from noisyir.training.optimisers import Optimiser, learning_rate, optimiser_for
from noisyir.training.settings import TrainDprParams
from noisyir.training.throughput import Meter, encoding
from noisyir.training.validation import Held, dev_mrr

_POINTS = 400  # of the training loss's curve, at most

log = logging.getLogger("noisyir")

Point = tuple[str, int, float, float]
"""(name, step, epoch, value) of a learning curve."""


@dataclass(frozen=True)
class Surroundings:
    """What a run needs besides data and settings; only `rng` has a part in the result.

    rng: a generator for a purpose; work: where the checkpoint lies;
    progress(done, total, unit) and metric(name, value, step) tell whoever watches; note(name, value) keeps a fact.
    """

    rng: Callable[..., np.random.Generator]
    work: Path
    checkpoint_seconds: float
    progress: Callable[[int, int | None, str], None]
    metric: Callable[[str, float, int], None]
    note: Callable[[str, Any], None] = lambda name, value: None


@dataclass
class Progress:
    """Where a run stands: `batch` batches of epoch number `epoch` are done.

    recent: losses since the loss curve's last point; best: the best dev MRR@10 and the epoch after which it was seen.
    processes: those that share each batch.
    """

    epoch: int = 0
    batch: int = 0
    recent: list[float] = field(default_factory=list)
    curves: list[Point] = field(default_factory=list)
    best: float = -1.0
    best_epoch: int = 0
    processes: int = 1

    def impatient(self, patience: int | None) -> bool:
        """Whether `patience` epochs have passed without a better dev value."""
        return patience is not None and self.epoch - self.best_epoch >= patience


def train(
    encoder: BiEncoder,
    pairs: TrainingPairs,
    held: Held | None,
    params: TrainDprParams,
    objective: Objective,
    around: Surroundings,
) -> list[Point]:
    """Train `encoder` in place and return its learning curves.

    DataError when the loss is no longer finite; ConfigError when patience has no dev queries to go by, or when a query
    has nothing to compete with its positive.
    """
    if params.patience is not None and held is None:
        raise ConfigError(f"train.patience={params.patience} needs dev queries, and there are none: set it to null")
    if params.pool == "own" and params.hard_negatives == 0:
        raise ConfigError(
            "train.pool=own with hard_negatives=0 leaves nothing to compete with a query's positive: set "
            "train.hard_negatives, and mine.per_query, or train.pool=batch"
        )
    run = TrainingRun(encoder, pairs, held, params, objective, around)
    run.resume()
    while not run.finished:
        run.start_epoch()
        for batch in run.batches_left():
            run.step(batch)
            run.checkpoint_if_due()
        run.end_epoch()
        run.checkpoint_if_due()
    run.finish()
    return run.progress.curves


class TrainingRun:
    """One training run: the model, its optimiser, and how far it has come."""

    def __init__(
        self,
        encoder: BiEncoder,
        pairs: TrainingPairs,
        held: Held | None,
        params: TrainDprParams,
        objective: Objective,
        around: Surroundings,
    ) -> None:
        self.encoder, self.pairs, self.held, self.params, self.around = encoder, pairs, held, params, around
        self.objective = objective
        self.optimiser: Optimiser = optimiser_for(encoder, params)
        self.progress = Progress(processes=world().size)
        self.best: dict[str, Tensor] = {}
        self.steps_an_epoch = batch_count(len(pairs), params.batch_size)
        self.steps = self.steps_an_epoch * params.epochs
        self._saved = time.monotonic()
        self.meter, self._work = Meter.of(encoder.device), encoding(encoder)
        if params.gradient_checkpointing:
            keep_fewer_activations(encoder.transformers)
        texts = params.batch_size * (2 + params.hard_negatives)
        bf16 = params.precision == "bf16"
        self.chunks = chunks_for(encoder, pairs.passages, params.chunk_size, texts, bf16=bf16)

    @property
    def done(self) -> int:
        """Steps taken so far."""
        return self.progress.epoch * self.steps_an_epoch + self.progress.batch

    @property
    def finished(self) -> bool:
        """Whether all epochs are over, or patience is."""
        return self.progress.epoch >= self.params.epochs or self.progress.impatient(self.params.patience)

    def start_epoch(self) -> None:
        """Let the objective look at the model, unless a killed run was past that already."""
        if self.progress.batch == 0:
            for name, value in self.objective.start_epoch(self.progress.epoch).items():
                self._point(name, value)
        self.meter.restart()
        self.encoder.train()

    def batches_left(self) -> Iterator[Batch]:
        """The batches of the present epoch that are still to come."""
        rng = self.around.rng("epoch", self.progress.epoch)
        epoch = Epoch(self.pairs, self.params.batch_size, self.params.hard_negatives, rng, self.params.pool)
        return epoch.batches(start=self.progress.batch)

    def step(self, batch: Batch) -> None:
        """Descend once along the gradient of the batch's mean loss."""
        with memory_advice("retriever"):
            loss = self._backward(batch)
            if not math.isfinite(loss):
                raise DataError(f"training diverged: the loss is {loss} at step {self.done}; lower train.learning_rate")
            self.optimiser.step(learning_rate(self.done, self.steps, self.params))
            self.objective.after_step()
        self.progress.batch += 1
        self.meter.add(self._work(batch.queries, batch.passages))
        self._record_loss(loss)

    def _backward(self, batch: Batch) -> float:
        """The batch's loss; its gradient is left in the weights."""
        params = self.params

        def loss(queries: Float[Tensor, "query dim"], passages: Float[Tensor, "passage dim"]) -> Float[Tensor, ""]:
            return self.objective.loss(batch, params.scale * queries @ passages.T)

        seed = int(self.around.rng("dropout", self.done).integers(2**63))
        bf16 = params.precision == "bf16"

        def descend(chunk_size: int | None) -> float:
            if chunk_size is None:
                return backward(self.encoder, batch, loss, seed=seed, bf16=bf16)
            return cached_backward(self.encoder, batch, loss, seed=seed, bf16=bf16, chunk_size=chunk_size)

        return self.chunks.attempt(descend, partial(self.encoder.zero_grad, set_to_none=True))

    def _record_loss(self, loss: float) -> None:
        """Add to the loss curve the mean of the last few steps, so that it has at most a few hundred points."""
        progress = self.progress
        progress.recent.append(loss)
        if len(progress.recent) >= math.ceil(self.steps / _POINTS) or self.done == self.steps:
            self._point("train_loss", sum(progress.recent) / len(progress.recent))
            progress.recent = []
            self.around.progress(self.done, self.steps, "steps")
            for name, rate in self.meter.rates().items():
                self.around.metric(name, rate, self.done)

    def end_epoch(self) -> None:
        """Rank the dev queries, and keep the weights if they never ranked better and someone will want them."""
        self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
        world().check_agreement(self._weights().values())
        if self.held is None:
            return
        value = dev_mrr(self.encoder, self.held)
        self._point("dev_mrr@10", value)
        if value > self.progress.best:
            self.progress.best, self.progress.best_epoch = value, self.progress.epoch
            if self.params.patience is not None:
                self.best = {name: weight.detach().clone() for name, weight in self._weights().items()}

    def finish(self) -> None:
        """Go back to the best weights where `patience` asked to keep them, else let the objective choose."""
        if self.best:
            self._load_weights(self.best)
        else:
            self.objective.finish()
        self.encoder.eval()
        self.around.note("throughput", {**self.meter.means(), "chunk_size": self.chunks.size})

    def _point(self, name: str, value: float) -> None:
        self.progress.curves.append((name, self.done, self.done / self.steps_an_epoch, value))
        self.around.metric(name, value, self.done)

    # Resuming -----------------------------------------------------------------------------------------------

    def checkpoint_if_due(self) -> None:
        """Save the state when the last checkpoint is old enough; of several processes the first one does."""
        if not world().leads or time.monotonic() - self._saved < self.around.checkpoint_seconds:
            return
        tensors: dict[str, Mapping[str, Tensor]] = {
            "model": self._weights(),
            "optimiser": self.optimiser.state(),
            "best": self.best,
            "objective": self.objective.state(),
        }
        save_checkpoint(self.around.work, Checkpoint(tensors, asdict(self.progress)))
        self._saved = time.monotonic()

    def resume(self) -> None:
        """Continue from the checkpoint that a killed run of the same stage and inputs left, if it did.

        It holds nothing of the processes: their number may be another now.
        """
        if (found := load_checkpoint(self.around.work)) is None:
            return
        note_resumed(self.around, found.progress.get("processes", 1))
        self._load_weights(found.tensors["model"])
        self.optimiser.load(found.tensors["optimiser"])
        self.best = dict(found.tensors.get("best", {}))
        self.objective.load(found.tensors.get("objective", {}))
        self.progress = Progress(**{**found.progress, "processes": world().size})
        self.progress.curves = [(name, step, epoch, value) for name, step, epoch, value in self.progress.curves]

    def _weights(self) -> dict[str, nn.Parameter]:
        """Every weight once: shared towers are one."""
        return dict(self.encoder.named_parameters())

    @torch.no_grad()
    def _load_weights(self, saved: Mapping[str, Tensor]) -> None:
        for name, weight in self._weights().items():
            weight.copy_(saved[name])


def note_resumed(around: Surroundings, before: int) -> None:
    """Say that another number of processes goes on than began: right, but no longer the same bits."""
    now = world()
    if before != now.size:
        around.note("resumed_with_processes", {"before": before, "now": now.size})
        if now.leads:
            log.warning("training goes on with %d processes; its checkpoint is of %d", now.size, before)
