"""Plain DPR (Karpukhin et al., EMNLP 2020), on the pairs as they come, or with regard to verdicts made beforehand."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.stages.training.train_dpr import WARM_UP


def train(scene: Scene) -> Outputs:
    """On all pairs alike: what popular trainers do.  Without hard negatives it is the warm-up of ANCE and AR2."""
    mined = {} if scene.exp.train.hard_negatives else {"negatives": None}
    return scene.train(WARM_UP, scene.exp.train, "dpr", pairs=scene.noisy["noisy_pairs"], **mined)


def train_without_flagged(scene: Scene) -> Outputs:
    """On the pairs that the detectors call clean."""
    flags = scene.flags()["noise_flags"]
    return scene.train(WARM_UP, scene.exp.train, "drop", pairs=scene.noisy["noisy_pairs"], flags=flags)


def train_weighted(scene: Scene) -> Outputs:
    """On all pairs, the loss of each times its probability of being clean."""
    params = scene.exp.train.model_copy(update={"flagged": "weight"})
    flags = scene.flags()["noise_flags"]
    return scene.train(WARM_UP, params, "reweight", pairs=scene.noisy["noisy_pairs"], flags=flags)
