"""A teacher whose weights are the moving average of its student's (Zhang et al., Findings of EMNLP 2023, Eq. 6)."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.static_tower import StaticTower
from noisyir.training.batches import Batch
from noisyir.training.learner import Tensors, follow, load_weights, teacher_of
from noisyir.training.optimisers import put_rows

_ROWS_AT_ONCE = 512  # of a table, so that what is computed of them stays in the processor's cache


class MovingAverage:
    """Moves every weight at every step."""

    def __init__(self, student: BiEncoder, decay: float) -> None:
        self.student, self.decay, self.teacher = student, decay, teacher_of(student)

    def follow(self) -> None:
        """Called after a step of the student."""
        follow(self.teacher, self.student, self.decay)

    def reader_of(self, batch: Batch) -> BiEncoder:
        """The teacher, as far as this batch needs it."""
        return self.teacher

    def whole(self) -> BiEncoder:
        """The teacher with all its weights as they are now."""
        return self.teacher

    def state(self) -> Tensors:
        """The tensors that a checkpoint must hold."""
        return {"teacher": dict(self.teacher.named_parameters())}

    def load(self, tensors: Tensors) -> None:
        """Continue from what `state` returned."""
        load_weights(self.teacher, tensors["teacher"])


class RowAverage(MovingAverage):
    """The same of static towers: a row moves when it is read, by all the steps since it last did.

    At a step the student moves the rows of the batch's tokens and no others (`RowAdamW`), which the teacher has just
    read.  While a row of the student rests, k steps of Eq. 6 come to teacher := student + decay^k (teacher - student).
    """

    def __init__(self, student: BiEncoder, decay: float) -> None:
        super().__init__(student, decay)
        self._behind = {name: torch.zeros(len(weight)) for name, weight in self.teacher.named_parameters()}

    def follow(self) -> None:
        """Count the step."""
        for behind in self._behind.values():
            behind += 1

    def reader_of(self, batch: Batch) -> BiEncoder:
        """The teacher, up to date in the rows of the batch's tokens.  Called before the student's step."""
        for name, read in self._read_by(batch).items():
            self._catch_up(name, torch.from_numpy(np.flatnonzero(read)))
        return self.teacher

    def whole(self) -> BiEncoder:
        """The teacher, all its rows up to date."""
        for name, behind in self._behind.items():
            self._catch_up(name, torch.arange(len(behind)))
        return self.teacher

    def _read_by(self, batch: Batch) -> Mapping[str, Bool[np.ndarray, " row"]]:
        """Of each table, whether a token of the batch is in a row."""
        read = {}
        for name, weight in self.teacher.named_parameters():
            read[name] = np.zeros(len(weight), bool)
            if weight is self.teacher.query_tower.weight:
                read[name][batch.queries.ids] = True
            if weight is self.teacher.passage_tower.weight:
                read[name][batch.passages.ids] = True
        return read

    @torch.no_grad()
    def _catch_up(self, name: str, rows: Int[Tensor, " moved"]) -> None:
        slow, fast = self.teacher.get_parameter(name), self.student.get_parameter(name)
        left = torch.pow(self.decay, self._behind[name][rows].double()).float()[:, None].to(slow.device)
        self._behind[name][rows] = 0
        parts = (torch.split(values, _ROWS_AT_ONCE) for values in (rows.to(slow.device), left))
        for some, share in zip(*parts, strict=True):
            target = fast.index_select(0, some)
            put_rows(slow, some, slow.index_select(0, some).sub_(target).mul_(share).add_(target))

    def state(self) -> Tensors:
        """Also the steps by which each row is behind."""
        return {**super().state(), "teacher_behind": self._behind}

    def load(self, tensors: Tensors) -> None:
        """Continue from what `state` returned."""
        super().load(tensors)
        self._behind = dict(tensors["teacher_behind"])


def average_of(student: BiEncoder, decay: float) -> MovingAverage:
    """By rows of a static model, else of all weights."""
    static = any(isinstance(part, StaticTower) for part in student.modules())
    return (RowAverage if static else MovingAverage)(student, decay)
