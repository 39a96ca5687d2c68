"""The contrastive confidence regulariser beside any objective (Wang et al., AAAI 2024, Eq. 8)."""

from jaxtyping import Float
from torch import Tensor

from noisyir.errors import ConfigError
from noisyir.losses.ccr import ccr, robust_loss
from noisyir.losses.dpr import masked_log_probs
from noisyir.training.batches import Batch
from noisyir.training.objective import on_device
from noisyir.training.settings import TrainDprParams

_LARGEST_BETA_OF_DOT = 1e-2


def check_regulariser(params: TrainDprParams, similarity: str) -> None:
    """ConfigError where the regulariser is switched on and could do no good."""
    settings = params.ccr
    if settings.beta == 0.0:
        return
    if settings.from_epoch >= params.epochs:
        raise ConfigError(
            f"ccr.from_epoch={settings.from_epoch} leaves none of {params.epochs} epochs to the regulariser: set "
            f"{params.epochs - 1} or less, or ccr.beta=0"
        )
    if similarity == "dot" and settings.beta > _LARGEST_BETA_OF_DOT and not settings.force:
        raise ConfigError(
            f"train.ccr.beta={settings.beta:g} with model.similarity=dot: the loss has no lower bound, for negatives "
            "are pushed away however far they are. Usual for dot products is 1e-4 to 1e-3; model.similarity=cosine "
            "allows up to 1. To train all the same: train.ccr.force=true"
        )


def regularised(
    loss: Float[Tensor, ""], batch: Batch, scores: Float[Tensor, "query passage"], beta: float
) -> Float[Tensor, ""]:
    """The loss less beta times the mean CCR of the batch's queries.

    Every query counts alike in the mean, however much weight the loss gives to its pair.
    """
    _, ignored = on_device(batch, scores.device)
    return robust_loss(loss, ccr(masked_log_probs(scores, ignored), ignored).mean(), beta)
