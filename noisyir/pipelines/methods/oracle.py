"""The oracle: DPR on the pairs that are clean in truth (DPR-C of Zhang et al., Findings of EMNLP 2023, section 4.3)."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.pipelines.methods import dpr
from noisyir.stages.training.train_dpr import TRAIN_DPR


def train(context: Context) -> Outputs:
    """Nobody has this outside an experiment; it sees fewer queries, so that a method may beat it."""
    if context.exp.noise.rate == 0:
        return dpr.train(context)
    return context.train(TRAIN_DPR, context.exp.train, "oracle", pairs=context.noisy["clean_pairs"])
