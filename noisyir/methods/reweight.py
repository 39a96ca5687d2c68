"""DPR on all pairs, those doubted counting less."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Reweight(Method):
    """On all pairs, the loss of each times its probability of being clean."""

    kind: Literal["reweight"] = "reweight"

    def train(self, context: "Context") -> Outputs:
        """Weigh the pairs."""
        params = context.exp.train.model_copy(update={"flagged": "weight"})
        flags = context.flags()["noise_flags"]
        return context.train(TRAIN_DPR, params, "reweight", pairs=context.noisy["noisy_pairs"], flags=flags)
