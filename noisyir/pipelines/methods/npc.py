"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023)."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.stages.training.train_npc import NPC


def train(scene: Scene) -> Outputs:
    """As in the paper: it flags the pairs by its own loss before each epoch."""
    return scene.train(NPC, scene.exp.correction(), "npc", pairs=scene.noisy["noisy_pairs"])


def train_with_flags(scene: Scene) -> Outputs:
    """With the verdicts of the experiment's detectors instead of its own."""
    params, flags = scene.exp.correction(detect="given"), scene.flags()["noise_flags"]
    return scene.train(NPC, params, "npc_flags", pairs=scene.noisy["noisy_pairs"], flags=flags)
