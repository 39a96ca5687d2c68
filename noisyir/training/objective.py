"""What a training run descends on: the loss of a batch, what a method does between steps, and its teacher."""

import copy
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from noisyir.losses.dpr import pair_nll
from noisyir.losses.npc import move_average
from noisyir.training.batches import Batch
from noisyir.training.checkpoint import Tensors

M = TypeVar("M", bound=nn.Module)


class Objective:
    """A loss, and hooks that a plain method leaves alone.

    A killed run continues to the same bits if `state` holds all that the next step depends on.
    """

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
        """What a checkpoint must hold of it, in groups of its own."""
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
