"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023)."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.stages.training.train_npc import TRAIN_NPC


def train(context: Context) -> Outputs:
    """As in the paper: it flags the pairs by its own loss before each epoch."""
    return context.train(TRAIN_NPC, context.exp.correction(), "npc", pairs=context.noisy["noisy_pairs"])


def train_with_flags(context: Context) -> Outputs:
    """With the verdicts of the experiment's detectors instead of its own."""
    params, flags = context.exp.correction(detect="given"), context.flags()["noise_flags"]
    return context.train(TRAIN_NPC, params, "npc_flags", pairs=context.noisy["noisy_pairs"], flags=flags)
