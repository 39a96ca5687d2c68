"""Noisy pair correction on repaired pairs: the surest wrong ones relabelled, the others left to the teacher."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.stages.training.train_npc import NPC


def train(scene: Scene) -> Outputs:
    """Relabelled pairs count as clean, those still flagged keep the consistency loss alone."""
    params, repaired = scene.exp.correction(detect="given"), scene.repaired()
    pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
    return scene.train(NPC, params, "npc_relabel", pairs=pairs, flags=flags)
