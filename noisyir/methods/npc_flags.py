"""Noisy pair correction by verdicts made beforehand."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_npc import TRAIN_NPC

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class NpcFlags(Method):
    """With the verdicts of the experiment's detectors instead of its own."""

    kind: Literal["npc_flags"] = "npc_flags"

    def train(self, context: "Context") -> Outputs:
        """Flagged pairs keep the consistency loss alone."""
        params, flags = context.exp.correction(detect="given"), context.flags()["noise_flags"]
        return context.train(TRAIN_NPC, params, "npc_flags", pairs=context.noisy["noisy_pairs"], flags=flags)
