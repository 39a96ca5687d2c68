"""A teacher: a copy of a model that follows it slowly and has no gradient of its own."""

import copy
from typing import TypeVar

from torch import nn

from noisyir.losses.npc import move_average

M = TypeVar("M", bound=nn.Module)


def teacher_of(student: M) -> M:
    """A copy that agrees with its student for now, in evaluation mode."""
    return copy.deepcopy(student).eval().requires_grad_(False)


def follow(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """Move every weight's average by one step."""
    for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
        move_average(slow, fast, decay)
