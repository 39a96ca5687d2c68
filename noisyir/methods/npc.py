"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023)."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_npc import TRAIN_NPC

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Npc(Method):
    """As in the paper: it flags the pairs by its own loss before each epoch."""

    kind: Literal["npc"] = "npc"

    def train(self, context: "Context") -> Outputs:
        """Detect, correct, train."""
        return context.train(TRAIN_NPC, context.exp.correction(), "npc", pairs=context.noisy["noisy_pairs"])
