"""A training run: learners in turn, their steps, curves and checkpoints.

A killed run continues to the same bits.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyir.engine.outside_errors import is_from_outside, one_line
from noisyir.training.batches import Rng
from noisyir.training.checkpoint import CHECKPOINT, Checkpoint, load_checkpoint, save_checkpoint
from noisyir.training.distributed import world
from noisyir.training.learner import Learner, log

Point = tuple[str, int, float, float]  # (name, step, epoch, value) of a learning curve
_POINTS = 400  # of one curve, at most


@dataclass(frozen=True)
class TrainingContext:
    """Surroundings of a run besides data and settings; only `rng` affects the result.

    work: Folder of the checkpoint; keep(file): stores a file of `work` for other machines.
    progress(done, total, unit), metric(name, value, step), note(name, value): reports.
    """

    rng: Rng
    work: Path
    checkpoint_seconds: float
    progress: Callable[[int, int | None, str], None]
    metric: Callable[[str, float, int], None]
    note: Callable[[str, Any], None] = lambda name, value: None
    keep: Callable[[Path], None] = lambda file: None


class TrainingRun:
    """Learners in turn: each takes all its steps before the next."""

    def __init__(self, learners: Sequence[Learner[Any]], context: TrainingContext) -> None:
        self.learners, self.context = learners, context
        self.curves: list[Point] = []
        self._recent: dict[str, list[float]] = {}
        self._windows = {learner.name: math.ceil((learner.until - learner.done) / _POINTS) for learner in learners}
        self._steps = self._left()
        self._saved = time.monotonic()

    def run(self) -> list[Point]:
        """Take all remaining steps and return the learning curves."""
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
        """Check that processes agree at the end of an epoch or run, then evaluate on dev."""
        ends_epoch = learner.done % learner.batches.an_epoch == 0
        if ends_epoch or learner.finished:
            world().check_agreement(learner.model.parameters())
        if ends_epoch:
            self._add_points(learner, learner.end_epoch())

    def _left(self) -> int:
        return sum(learner.until - learner.done for learner in self.learners)

    def _record(self, learner: Learner[Any], measured: Mapping[str, float]) -> None:
        """Add the mean of the last few steps to each curve, so that a curve has at most a few hundred points."""
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

    def _checkpoint_if_due(self) -> None:
        """Save the state, in the first process, if the last checkpoint is old enough."""
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
        """Continue from a killed run's checkpoint, if there is one.

        With another number of processes training continues correctly, but not to the same bits.
        """
        world().share_file(self.context.work / CHECKPOINT)
        if (found := load_checkpoint(self.context.work)) is None:
            return
        before, here = found.progress["processes"], world()
        if before != here.size:
            self.context.note("resumed_with_processes", {"before": before, "now": here.size})
            if here.leads:
                log.warning("training goes on with %d processes; its checkpoint is of %d", here.size, before)
        for learner in self.learners:
            learner.load(found.tensors, found.progress["done"][learner.name])
        self.curves = [(name, step, epoch, value) for name, step, epoch, value in found.progress["curves"]]
        self._recent = found.progress["recent"]
