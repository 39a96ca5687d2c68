"""The oracle: DPR on the pairs that are clean in truth (DPR-C of Zhang et al., Findings of EMNLP 2023, section 4.3)."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.pipelines.methods import dpr
from noisyir.stages.training.train_dpr import WARM_UP


def train(scene: Scene) -> Outputs:
    """Nobody has this outside an experiment; it sees fewer queries, so that a method may beat it."""
    if scene.exp.noise.rate == 0:
        return dpr.train(scene)
    return scene.train(WARM_UP, scene.exp.train, "oracle", pairs=scene.noisy["clean_pairs"])
