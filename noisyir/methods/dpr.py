"""Plain DPR (Karpukhin et al., EMNLP 2020), on the pairs as they come."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Dpr(Method):
    """All pairs alike, unless the data gives them weights: what popular trainers do."""

    kind: Literal["dpr"] = "dpr"

    def train(self, context: "Context") -> Outputs:
        """Without hard negatives it is the warm-up of ANCE and AR2."""
        mined = {} if context.exp.train.hard_negatives else {"negatives": None}
        return context.train(TRAIN_DPR, context.exp.train, "dpr", pairs=context.noisy["noisy_pairs"], **mined)
