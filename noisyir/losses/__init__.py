"""Losses: pure functions of scores; no model, no optimiser, no data.

`NoisyPairLoss`, the one for sentence-transformers' Trainer, has all of these: it lives in `noisyir.api` and is only
named here, for those who look for a loss.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyir.api.noisy_pair_loss import NoisyPairLoss

__all__ = ["NoisyPairLoss"]


def __getattr__(name: str) -> Any:
    """Load the loss for sentence-transformers when it is asked for."""
    if name != "NoisyPairLoss":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noisyir.api import noisy_pair_loss

    return noisy_pair_loss.NoisyPairLoss
