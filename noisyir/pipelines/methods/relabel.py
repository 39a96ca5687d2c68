"""Plain DPR on repaired pairs: the surest wrong ones relabelled, the others dropped."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.stages.training.train_dpr import TRAIN_DPR


def train(context: Context) -> Outputs:
    """The control of `npc_relabel`: the same pairs without a teacher."""
    repaired = context.repaired()
    pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
    return context.train(TRAIN_DPR, context.exp.train, "relabel", pairs=pairs, flags=flags)
