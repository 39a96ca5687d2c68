"""`noisyir.losses.NoisyPairLoss`: the papers' losses in sentence-transformers' Trainer, loaded when it is used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyir.methods.npc.noisy_pair_loss import NoisyPairLoss

__all__ = ["NoisyPairLoss"]


def __getattr__(name: str) -> Any:
    """Load the loss for sentence-transformers at its first use."""
    if name != "NoisyPairLoss":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noisyir.methods.npc import noisy_pair_loss

    return noisy_pair_loss.NoisyPairLoss
