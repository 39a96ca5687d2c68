"""The contrastive confidence regulariser beside any objective (Wang et al., AAAI 2024, Eq. 8)."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.losses.ccr import ccr, robust_loss
from noisyir.losses.dpr import masked_log_probs
from noisyir.training.batches import Batch
from noisyir.training.objective import Objective, on_device
from noisyir.training.settings import CcrParams

_EPOCH = "ccr_epoch"


class Regularised(Objective):
    """The loss of `inner` less beta times the mean CCR of the batch's queries, from an epoch on; all else is inner's.

    Every query counts alike in the mean, however much weight `inner` gives to its pair.
    """

    def __init__(self, inner: Objective, params: CcrParams) -> None:
        self.inner, self.params, self.epoch = inner, params, 0

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The loss of `inner`, regularised once it is time."""
        loss = self.inner.loss(batch, scores)
        if self.epoch < self.params.from_epoch:
            return loss
        _, ignored = on_device(batch, scores.device)
        return robust_loss(loss, ccr(masked_log_probs(scores, ignored), ignored).mean(), self.params.beta)

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Note the epoch, and let `inner` prepare."""
        self.epoch = epoch
        return self.inner.start_epoch(epoch)

    def after_step(self) -> None:
        """As `inner`."""
        self.inner.after_step()

    def finish(self) -> None:
        """As `inner`."""
        self.inner.finish()

    def state(self) -> Mapping[str, Tensor]:
        """What `inner` needs, and the epoch: a run that is resumed within one is not told of its start."""
        return {**self.inner.state(), _EPOCH: torch.tensor(self.epoch)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        self.epoch = int(state[_EPOCH])
        self.inner.load({name: value for name, value in state.items() if name != _EPOCH})
