"""Noisy pair correction on repaired pairs: the surest wrong ones relabelled, the others left to the teacher."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.stages.training.train_npc import TRAIN_NPC


def train(context: Context) -> Outputs:
    """Relabelled pairs count as clean, those still flagged keep the consistency loss alone."""
    params, repaired = context.exp.correction(detect="given"), context.repaired()
    pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
    return context.train(TRAIN_NPC, params, "npc_relabel", pairs=pairs, flags=flags)
