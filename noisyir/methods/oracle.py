"""The oracle: DPR on the pairs that are clean in truth (DPR-C of Zhang et al., Findings of EMNLP 2023, section 4.3)."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.methods.dpr import Dpr
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Oracle(Method):
    """Nobody has this outside an experiment; it sees fewer queries, so that a method may beat it."""

    kind: Literal["oracle"] = "oracle"

    def train(self, context: "Context") -> Outputs:
        """Without injected noise it is DPR."""
        if context.exp.noise.rate == 0:
            return Dpr().train(context)
        return context.train(TRAIN_DPR, context.exp.train, "oracle", pairs=context.noisy["clean_pairs"])
