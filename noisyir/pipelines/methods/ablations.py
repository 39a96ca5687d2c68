"""Noisy pair correction with parts of it switched off (Zhang et al., Findings of EMNLP 2023, Tables 3 and 5)."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.stages.training.train_npc import NPC


def detection_only(scene: Scene) -> Outputs:
    """Flagged pairs are left out of the loss; no teacher ("De")."""
    return _npc(scene, "npc_detection_only", consistency=0.0)


def correction_only(scene: Scene) -> Outputs:
    """All pairs count as clean; the teacher smooths all ("Co")."""
    return _npc(scene, "npc_correction_only", detect="never")


def detect_once(scene: Scene) -> Outputs:
    """The first detection's flags for all epochs ("w/o iterative detection")."""
    return _npc(scene, "npc_detect_once", detect="once")


def hard_pair_loss(scene: Scene) -> Outputs:
    """Mined negatives in the loss that pairs are flagged by ("PPL with hard negatives"); needs mine.per_query."""
    return _npc(scene, "npc_hard_pair_loss", hard_negatives=1)


def _npc(scene: Scene, label: str, **settings: object) -> Outputs:
    return scene.train(NPC, scene.exp.correction(**settings), label, pairs=scene.noisy["noisy_pairs"])
