"""DPR on repaired pairs, those still doubted counting less: what training makes of the file of an applied audit."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class ReweightRelabel(Method):
    """As `noisyir audit --apply`: the surest wrong pairs relabelled, every other counts by its chance to be clean."""

    kind: Literal["reweight_relabel"] = "reweight_relabel"

    def train(self, context: "Context") -> Outputs:
        """Relabel, weigh, train."""
        params, repaired = context.exp.train.model_copy(update={"flagged": "weight"}), context.repaired()
        pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
        return context.train(TRAIN_DPR, params, "reweight_relabel", pairs=pairs, flags=flags)
