"""Co-teaching: two models, each taught by the pairs of small loss to the other (Han et al., NeurIPS 2018)."""

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.stages.training.train_co_teaching import TRAIN_CO_TEACHING


def train(context: Context) -> Outputs:
    """The share of pairs dropped is the noise rate that the experiment's detectors estimate."""
    pairs, estimate = context.noisy["noisy_pairs"], context.flags()["noise_estimate"]
    return context.train(TRAIN_CO_TEACHING, context.exp.teaching(), "co_teaching", pairs=pairs, estimate=estimate)
