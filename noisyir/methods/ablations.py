"""Noisy pair correction with parts of it switched off (Zhang et al., Findings of EMNLP 2023, Tables 3 and 5)."""

from typing import TYPE_CHECKING, ClassVar, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_npc import TRAIN_NPC

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class Ablation(Method):
    """Noisy pair correction with some of `npc` changed."""

    changes: ClassVar[dict[str, object]]

    def train(self, context: "Context") -> Outputs:
        """Train with what the ablation changes."""
        params = context.exp.correction(**self.changes)
        return context.train(TRAIN_NPC, params, self.kind, pairs=context.noisy["noisy_pairs"])


class DetectionOnly(Ablation):
    """Flagged pairs are left out of the loss; no teacher ("De")."""

    kind: Literal["npc_detection_only"] = "npc_detection_only"
    changes: ClassVar[dict[str, object]] = {"consistency": 0.0}


class CorrectionOnly(Ablation):
    """All pairs count as clean; the teacher smooths all ("Co")."""

    kind: Literal["npc_correction_only"] = "npc_correction_only"
    changes: ClassVar[dict[str, object]] = {"detect": "never"}


class DetectOnce(Ablation):
    """The first detection's flags for all epochs ("w/o iterative detection")."""

    kind: Literal["npc_detect_once"] = "npc_detect_once"
    changes: ClassVar[dict[str, object]] = {"detect": "once"}


class HardPairLoss(Ablation):
    """Mined negatives in the loss that pairs are flagged by ("PPL with hard negatives"); needs mine.per_query."""

    kind: Literal["npc_hard_pair_loss"] = "npc_hard_pair_loss"
    changes: ClassVar[dict[str, object]] = {"hard_negatives": 1}
