"""Plain DPR (Karpukhin et al., EMNLP 2020), on the pairs as they come, or with regard to verdicts made beforehand."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.stages.training.train_dpr import TRAIN_DPR


def train(context: Context) -> Outputs:
    """On all pairs alike: what popular trainers do.  Without hard negatives it is the warm-up of ANCE and AR2."""
    mined = {} if context.exp.train.hard_negatives else {"negatives": None}
    return context.train(TRAIN_DPR, context.exp.train, "dpr", pairs=context.noisy["noisy_pairs"], **mined)


def train_without_flagged(context: Context) -> Outputs:
    """On the pairs that the detectors call clean."""
    flags = context.flags()["noise_flags"]
    return context.train(TRAIN_DPR, context.exp.train, "drop", pairs=context.noisy["noisy_pairs"], flags=flags)


def train_weighted(context: Context) -> Outputs:
    """On all pairs, the loss of each times its probability of being clean."""
    params = context.exp.train.model_copy(update={"flagged": "weight"})
    flags = context.flags()["noise_flags"]
    return context.train(TRAIN_DPR, params, "reweight", pairs=context.noisy["noisy_pairs"], flags=flags)
