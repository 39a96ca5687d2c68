"""DPR on the pairs that were not flagged beforehand."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Drop(Method):
    """On the pairs that the detectors call clean.

    It loses where wrong pairs are near-misses, which teach more than their absence does, and where flags hit right
    pairs: on real noise it was below plain training even with people's own labels (docs/noise.md).
    """

    kind: Literal["drop"] = "drop"

    def train(self, context: "Context") -> Outputs:
        """Leave the flagged pairs out."""
        flags = context.flags()["noise_flags"]
        return context.train(TRAIN_DPR, context.exp.train, "drop", pairs=context.noisy["noisy_pairs"], flags=flags)
