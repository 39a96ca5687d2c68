"""Plain DPR on repaired pairs: the surest wrong ones relabelled, the others dropped."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Relabel(Method):
    """The control of `npc_relabel`: the same pairs without a teacher."""

    kind: Literal["relabel"] = "relabel"

    def train(self, context: "Context") -> Outputs:
        """Relabel, drop, train."""
        repaired = context.repaired()
        pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
        return context.train(TRAIN_DPR, context.exp.train, "relabel", pairs=pairs, flags=flags)
