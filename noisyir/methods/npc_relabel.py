"""Noisy pair correction on repaired pairs: the surest wrong ones relabelled, the others left to the teacher."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_npc import TRAIN_NPC

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class NpcRelabel(Method):
    """Relabelled pairs count as clean, those still flagged keep the consistency loss alone."""

    kind: Literal["npc_relabel"] = "npc_relabel"

    def train(self, context: "Context") -> Outputs:
        """Relabel, then correct what is left."""
        params, repaired = context.exp.correction(detect="given"), context.repaired()
        pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
        return context.train(TRAIN_NPC, params, "npc_relabel", pairs=pairs, flags=flags)
