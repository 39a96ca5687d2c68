"""Co-teaching: two models, each taught by the pairs of small loss to the other (Han et al., NeurIPS 2018)."""

from typing import TYPE_CHECKING, Literal

from noisyir.engine.stage import Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.train_co_teaching import TRAIN_CO_TEACHING

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context


class CoTeaching(Method):
    """The share of pairs dropped is the noise rate that the experiment's detectors estimate."""

    kind: Literal["co_teaching"] = "co_teaching"

    def train(self, context: "Context") -> Outputs:
        """Estimate the rate, then train both."""
        context.refuse_weights("co_teaching")
        pairs, estimate = context.noisy["noisy_pairs"], context.flags()["noise_estimate"]
        return context.train(TRAIN_CO_TEACHING, context.exp.teaching(), "co_teaching", pairs=pairs, estimate=estimate)
