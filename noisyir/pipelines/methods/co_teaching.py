"""Co-teaching: two models, each taught by the pairs of small loss to the other (Han et al., NeurIPS 2018)."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.stages.training.train_co_teaching import CO_TEACH


def train(scene: Scene) -> Outputs:
    """The share of pairs dropped is the noise rate that the experiment's detectors estimate."""
    pairs, estimate = scene.noisy["noisy_pairs"], scene.flags()["noise_estimate"]
    return scene.train(CO_TEACH, scene.exp.teaching(), "co_teaching", pairs=pairs, estimate=estimate)
