"""Noisy pair correction with parts of it switched off (Zhang et al., Findings of EMNLP 2023, Tables 3 and 5)."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.stages.training.train_npc import TRAIN_NPC


def detection_only(context: Context) -> Outputs:
    """Flagged pairs are left out of the loss; no teacher ("De")."""
    return _npc(context, "npc_detection_only", consistency=0.0)


def correction_only(context: Context) -> Outputs:
    """All pairs count as clean; the teacher smooths all ("Co")."""
    return _npc(context, "npc_correction_only", detect="never")


def detect_once(context: Context) -> Outputs:
    """The first detection's flags for all epochs ("w/o iterative detection")."""
    return _npc(context, "npc_detect_once", detect="once")


def hard_pair_loss(context: Context) -> Outputs:
    """Mined negatives in the loss that pairs are flagged by ("PPL with hard negatives"); needs mine.per_query."""
    return _npc(context, "npc_hard_pair_loss", hard_negatives=1)


def _npc(context: Context, label: str, **settings: object) -> Outputs:
    return context.train(TRAIN_NPC, context.exp.correction(**settings), label, pairs=context.noisy["noisy_pairs"])
