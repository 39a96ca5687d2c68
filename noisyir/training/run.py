"""A training run, told from top to bottom: learners one after the other, their steps, curves and checkpoints.

A run can be killed at any point and continued to the same bits.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyir.engine.outside_errors import is_from_outside, one_line
from noisyir.training.batches import Rng
from noisyir.training.distributed import world
from noisyir.training.learner import CHECKPOINT, Checkpoint, Learner, load_checkpoint, log, save_checkpoint

_POINTS = 400  # of the curve of a step's measure, at most


Point = tuple[str, int, float, float]
"""(name, step, epoch, value) of a learning curve."""


@dataclass(frozen=True)
class TrainingContext:
    """A run's surroundings besides data and settings; only `rng` has a part in the result.

    rng: a generator for a purpose; work: where the checkpoint lies;
    progress(done, total, unit) and metric(name, value, step) tell whoever watches; note(name, value) keeps a fact;
    keep(file) has another machine find a file of `work`.
    """

    rng: Rng
    work: Path
    checkpoint_seconds: float
    progress: Callable[[int, int | None, str], None]
    metric: Callable[[str, float, int], None]
    note: Callable[[str, Any], None] = lambda name, value: None
    keep: Callable[[Path], None] = lambda file: None


class TrainingRun:
    """Learners by turns: each takes all its steps while the others stand still."""

    def __init__(self, learners: Sequence[Learner[Any]], context: TrainingContext) -> None:
        self.learners, self.context = learners, context
        self.curves: list[Point] = []
        self._recent: dict[str, list[float]] = {}
        self._windows = {learner.name: math.ceil((learner.until - learner.done) / _POINTS) for learner in learners}
        self._steps = self._left()
        self._saved = time.monotonic()

    def run(self) -> list[Point]:
        """Take all steps that are still to be taken, and return the learning curves."""
        self._resume()
        for learner in self.learners:
            learner.meter.restart()
            while not learner.finished:
                self._start_epoch_if_due(learner)
                measured = learner.step()
                self._record(learner, measured)
                self._end_epoch_if_due(learner)
                self._checkpoint_if_due()
            self._add_points(learner, learner.finish())
            learner.model.eval()
            self.context.note(f"{learner.prefix}throughput", learner.throughput())
        return self.curves

    def _start_epoch_if_due(self, learner: Learner[Any]) -> None:
        if learner.done % learner.batches.an_epoch == 0:
            self._add_points(learner, learner.start_epoch())
            learner.meter.restart()

    def _end_epoch_if_due(self, learner: Learner[Any]) -> None:
        """Processes must agree where an epoch or the run ends; then the learner has a look at dev."""
        ends_epoch = learner.done % learner.batches.an_epoch == 0
        if ends_epoch or learner.finished:
            world().check_agreement(learner.model.parameters())
        if ends_epoch:
            self._add_points(learner, learner.end_epoch())

    def _left(self) -> int:
        return sum(learner.until - learner.done for learner in self.learners)

    def _record(self, learner: Learner[Any], measured: Mapping[str, float]) -> None:
        """Add to each curve the mean of the last few steps, so that it has at most a few hundred points."""
        for name, value in measured.items():
            self._recent.setdefault(name, []).append(value)
        window = len(self._recent[next(iter(measured))])
        if window < self._windows[learner.name] and learner.done < learner.until:
            return
        self._add_points(learner, {name: sum(values) / len(values) for name, values in self._recent.items()})
        self._recent = {}
        for name, speed in learner.meter.rates().items():
            self.context.metric(f"{learner.prefix}{name}", speed, learner.done)
        self.context.progress(self._steps - self._left(), self._steps, "steps")

    def _add_points(self, learner: Learner[Any], values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.curves.append((name, learner.done, learner.epoch, value))
            self.context.metric(name, value, learner.done)

    # Resuming -----------------------------------------------------------------------------------------------

    def _checkpoint_if_due(self) -> None:
        """Save the state when the last checkpoint is old enough; of several processes the first one does."""
        if not world().leads or time.monotonic() - self._saved < self.context.checkpoint_seconds:
            return
        tensors = {name: group for learner in self.learners for name, group in learner.state().items()}
        progress = {
            "done": {learner.name: learner.done for learner in self.learners},
            "curves": self.curves,
            "recent": self._recent,
            "processes": world().size,
        }
        save_checkpoint(self.context.work, Checkpoint(tensors, progress))
        try:
            self.context.keep(self.context.work / CHECKPOINT)
        except Exception as error:
            if not is_from_outside(error):
                raise
            log.warning("the checkpoint is on this machine alone, for the store is away: %s", one_line(error))
        self._saved = time.monotonic()

    def _resume(self) -> None:
        """Continue from the checkpoint that a killed run of the same stage and inputs left, if it did.

        It holds nothing of the processes: with another number of them it goes on rightly, but no longer to the same
        bits.
        """
        world().share_file(self.context.work / CHECKPOINT)
        if (found := load_checkpoint(self.context.work)) is None:
            return
        before, now = found.progress["processes"], world()
        if before != now.size:
            self.context.note("resumed_with_processes", {"before": before, "now": now.size})
            if now.leads:
                log.warning("training goes on with %d processes; its checkpoint is of %d", now.size, before)
        for learner in self.learners:
            learner.load(found.tensors, found.progress["done"][learner.name])
        self.curves = [(name, step, epoch, value) for name, step, epoch, value in found.progress["curves"]]
        self._recent = found.progress["recent"]
