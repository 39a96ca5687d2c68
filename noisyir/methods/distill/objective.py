"""Distillation as an objective of the training loop: a teacher's scored lists, and perhaps the given pairs.

Each pair is a row of the batch: its own passage first, then the passages of its query's list.
"""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisyir.base.errors import DataError
from noisyir.training.batches import Batch, ListedPairs, Ragged, known_columns
from noisyir.training.learner import Objective, on_device
from noisyir.training.losses.distillation import listwise_kl, lse_pair, margin_mse, too_good
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.settings import TrainDistillParams

Array = np.ndarray
_LOSSES = {"listwise": listwise_kl, "margin": margin_mse}
_SPREADS = 4.0  # temperatures in a list's spread: sentence-transformers' example has scores from 0 to 1 at 0.25
_EXTREMES = 0.01, 0.99  # quantiles of all scores that stand for 0 and 1 in a mask (CADET's code)


class Distillation(Objective):
    """The mean loss of a batch's lists plus `distill.contrastive` times the weighted mean loss of its pairs."""

    def __init__(self, pairs: ListedPairs, params: TrainDistillParams, weights: Float[Tensor, " pair"] | None) -> None:
        self.pairs, self.params, self.weights = pairs, params, weights
        given = params.distill
        self.teacher_temperature = given.teacher_temperature or temperature_of(list_spreads(pairs))
        self.student_temperature = given.student_temperature or 1.0 / params.scale
        self.measured: Mapping[str, float] = {}
        self._least, most = np.quantile(pairs.score, _EXTREMES)
        self._width = max(float(most - self._least), float(np.finfo(np.float32).tiny))

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The loss; its parts, and the share of masked negatives, are in `measured`."""
        given, own = self.params.distill, own_columns(batch)
        asked = self.pairs.teacher_scores(batch.rows, batch.passage[own])
        listed = torch.from_numpy(~np.isnan(asked) & ~repeated(batch.passage[own])).to(scores.device)
        teacher = torch.from_numpy(np.nan_to_num(asked)).to(scores.device)
        similarity = scores.gather(1, torch.from_numpy(own).to(scores.device)) / self.params.scale
        loss = _LOSSES[given.loss](
            similarity, teacher, listed,
            student_temperature=self.student_temperature, teacher_temperature=self.teacher_temperature,
        ).mean()  # fmt: skip
        self.measured = {"distillation_loss": float(loss.detach())}
        if not given.contrastive:
            return loss
        contrastive, masked = self._contrastive(batch, scores, own, asked)
        self.measured = {**self.measured, "contrastive_loss": float(contrastive.detach())}
        if given.mask != "none":
            self.measured = {**self.measured, "masked_share": masked}
        return loss + given.contrastive * contrastive

    def _contrastive(
        self, batch: Batch, scores: Float[Tensor, "query passage"], own: Array, asked: Array
    ) -> tuple[Float[Tensor, ""], float]:
        """The pairs' mean loss over all of the batch's columns, and the share of negatives masked."""
        positive, ignored = on_device(batch, scores.device)
        negatives = ~ignored
        negatives.scatter_(1, positive.unsqueeze(1), False)
        masked = self._masked(batch, scores.detach(), own, asked) & negatives
        share = float(masked.sum() / negatives.sum().clamp(min=1))
        if self.params.distill.positives == "lse_pair":
            losses = lse_pair(scores, self._positives(batch, own).to(scores.device), ignored | masked)
        else:
            losses = pair_nll(scores, positive, ignored | masked)
        if self.weights is not None:
            losses = losses * self.weights[torch.from_numpy(batch.rows)].to(scores.device)
        return losses.mean(), share

    def _positives(self, batch: Batch, own: Array) -> Bool[Tensor, "query passage"]:
        """The columns of each query's list that are positives, each passage once."""
        given = np.take_along_axis(batch.ignored, own, axis=1) & ~repeated(batch.passage[own])
        given[:, 0] = True
        found = np.zeros(batch.ignored.shape, bool)
        np.put_along_axis(found, own, given, axis=1)
        return torch.from_numpy(found)

    def _masked(
        self, batch: Batch, scores: Float[Tensor, "query passage"], own: Array, asked: Array
    ) -> Bool[Tensor, "query passage"]:
        """Negatives that the student or the teacher scores too high, in all columns of the passage."""
        given = self.params.distill
        bounds = {"share_of_top": given.share_of_top, "over_positive": given.over_positive}
        if given.mask == "student":
            positive, _ = on_device(batch, scores.device)
            return too_good(scores / self.params.scale, positive, **bounds)
        if given.mask == "none":
            return torch.zeros_like(scores, dtype=torch.bool)
        from_zero_to_one = np.clip((asked - self._least) / self._width, 0.0, 1.0)
        first = torch.zeros(len(batch), dtype=torch.int64)
        row, place = np.nonzero(too_good(torch.from_numpy(from_zero_to_one), first, **bounds).numpy())
        listed = Ragged.grouped(row, batch.passage[own[row, place]], len(batch))
        return torch.from_numpy(known_columns(listed, np.arange(len(batch)), batch.passage)).to(scores.device)


def own_columns(batch: Batch) -> Array:
    """The columns of each query's own pair by (query, place), its passage first."""
    width = len(batch.passage) // max(len(batch), 1)
    return np.asarray(batch.positive[:, None] + np.arange(width))


def repeated(passages: Array) -> Array:
    """Whether each of the (query, place) passages occurs further left in its row."""
    order = np.argsort(passages, axis=1, kind="stable")
    ordered = np.take_along_axis(passages, order, axis=1)
    found = np.zeros(passages.shape, bool)
    np.put_along_axis(found, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return found


def list_spreads(pairs: ListedPairs) -> Float[Array, " list"]:
    """The range of scores of each list of at least two.

    Raises:
        DataError: If there is no such list.
    """
    sizes = np.diff(pairs.negatives.offsets)
    starts = pairs.negatives.offsets[:-1][sizes >= 2]
    if not len(starts):
        raise DataError("methods.lists_too_short")
    filled = pairs.negatives.offsets[:-1][sizes > 0]
    most, least = (of.reduceat(pairs.score, filled) for of in (np.maximum, np.minimum))
    return np.asarray((most - least)[sizes[sizes > 0] >= 2], np.float64)


def temperature_of(spreads: Float[Array, " list"]) -> float:
    """A quarter of the median spread of the lists with different scores.

    Raises:
        DataError: If there is no such list.
    """
    if not (spreads > 0).any():
        raise DataError("methods.teacher_scores_equal")
    return float(np.median(spreads[spreads > 0])) / _SPREADS
