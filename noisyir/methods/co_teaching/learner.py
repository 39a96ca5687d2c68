"""Co-teaching (Han et al., NeurIPS 2018, Algorithm 1) as an objective of the training loop.

Two models read the same batches, and each learns from the pairs whose loss is small to the other: what is learnt late
is likelier wrong, and two models do not make the same mistakes.  A pair that is not kept still lends its passage to
the others as a negative.  The paper's two networks start at random; two encoders start from one, and are told apart by
noise on the second's weights.  The loop's model is the one that is kept.
"""

import copy
import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from noisyir.base.errors import DataError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import Batch, Rng, TrainingPairs
from noisyir.training.gradients import BatchGradient
from noisyir.training.learner import Objective, Tensors, load_weights, on_device
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.optimisers import learning_rate, optimiser_for
from noisyir.training.settings import TrainCoTeachingParams


def keep_share(epoch: int, noise_rate: float, ramp_epochs: int) -> float:
    """R(T) = 1 - tau * min(T / T_k, 1): the share of a batch that is kept in epoch number T, from 0 (Algorithm 1)."""
    return 1.0 - noise_rate * min(epoch / ramp_epochs, 1.0)


def small_loss(losses: Float[Tensor, " pair"], share: float) -> Int[Tensor, " kept"]:
    """The ceil(share * pairs) pairs of smallest loss, smallest first; of equal losses the first (Algorithm 1)."""
    kept = math.ceil(share * len(losses) - 1e-9)  # (1 - 0.7) * 10 is a little over 3
    return losses.argsort(stable=True)[:kept]


def taught(losses: Float[Tensor, " pair"], peer_losses: Float[Tensor, " pair"], share: float) -> Float[Tensor, ""]:
    """A model's mean loss over the pairs whose loss is small to its peer (Algorithm 1); share = 1 is the plain mean."""
    return losses[small_loss(peer_losses, share)].mean()


class CoTeachingRun(Objective):
    """The loop's model learns from what `peer` finds easy; the peer learns here from what the loop's model does.

    noise_rate: the share of pairs dropped when the ramp is over, below 1.
    """

    def __init__(
        self, encoder: BiEncoder, pairs: TrainingPairs, params: TrainCoTeachingParams, rng: Rng, noise_rate: float
    ) -> None:
        self.params, self.rng, self.noise_rate = params, rng, noise_rate
        self.peer = perturbed(encoder, params.co_teaching.perturbation, rng("peer")).train()
        self.optimiser = optimiser_for(self.peer, params)
        texts = params.batch_size * (2 + params.hard_negatives)
        self.gradient = BatchGradient(self.peer, pairs.passages, params, texts)
        self.steps_an_epoch = math.ceil(len(pairs) / params.batch_size)
        self.step = 0

    @property
    def share(self) -> float:
        """The share of a batch that is kept at present."""
        return keep_share(self.step // self.steps_an_epoch, self.noise_rate, self.params.co_teaching.ramp_epochs)

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Record how much is kept."""
        return {"keep_share": self.share}

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The loop's model's loss; the gradient of the peer's is left in the peer's weights."""
        losses = pair_nll(scores, *on_device(batch, scores.device))
        return taught(losses, self._teach_peer(batch, losses.detach()), self.share)

    def _teach_peer(self, batch: Batch, losses: Float[Tensor, " pair"]) -> Float[Tensor, " pair"]:
        """Carry the gradient of what `losses` teach into the peer's weights, and return the peer's own losses."""
        params, seen = self.params, []

        def loss(queries: Float[Tensor, "query dim"], passages: Float[Tensor, "passage dim"]) -> Float[Tensor, ""]:
            own = pair_nll(params.scale * queries @ passages.T, *on_device(batch, queries.device))
            seen.append(own.detach())
            return taught(own, losses, self.share)

        self.gradient.drop()  # of a step that the other model takes again, having found too little memory
        seed = int(self.rng("peer_dropout", self.step).integers(2**63))
        value = self.gradient.compute(batch, loss, seed)
        if not math.isfinite(value):
            raise DataError("methods.co_teaching_diverged_second", value=value, step=self.step)  # fmt: skip
        return seen[-1]

    def after_step(self) -> None:
        """Move the peer, too."""
        self.optimiser.step(learning_rate(self.step, self.steps_an_epoch * self.params.epochs, self.params))
        self.step += 1

    # Resuming -----------------------------------------------------------------------------------------------

    def state(self) -> Tensors:
        """The peer and its optimiser."""
        return {"peer": dict(self.peer.named_parameters()), "peer_optimiser": self.optimiser.state()}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue after `done` steps from a checkpoint with what `state` returned."""
        load_weights(self.peer, tensors["peer"])
        self.optimiser.load(tensors["peer_optimiser"])
        self.step = done


@torch.no_grad()
def perturbed(encoder: BiEncoder, size: float, rng: np.random.Generator) -> BiEncoder:
    """A copy with Gaussian noise on every weight, its standard deviation `size` times that of the weight's tensor."""
    peer = copy.deepcopy(encoder)
    for weight in peer.parameters():
        noise = torch.from_numpy(rng.standard_normal(weight.shape, np.float32)).to(weight.device)
        weight.add_(noise * (size * weight.std(correction=0)))
    return peer
