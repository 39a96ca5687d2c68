"""Training on detectors' flags: pairs dropped, weighted or relabelled."""

from typing import TYPE_CHECKING

from noisyir.engine.stage import Outputs
from noisyir.methods.plans.method import Method
from noisyir.training.stages.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context


class Drop(Method, kind="drop"):
    """Train on the pairs that the detectors call clean.

    It loses if wrong pairs are near-misses, which teach something, or if flags hit right pairs: on real noise it was
    below plain training even with people's own labels (benchmarks/noise.md).
    """

    def train(self, context: "Context") -> Outputs:
        """Leave the flagged pairs out."""
        flags = context.flags()["noise_flags"]
        return context.train(TRAIN_DPR, context.exp.train, "drop", pairs=context.noisy["noisy_pairs"], flags=flags)


class Relabel(Method, kind="relabel"):
    """Relabel the surest wrong pairs and drop the rest: the control of `npc_relabel`."""

    def train(self, context: "Context") -> Outputs:
        """Relabel, drop, train."""
        repaired = context.repaired()
        pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
        return context.train(TRAIN_DPR, context.exp.train, "relabel", pairs=pairs, flags=flags)


class Reweight(Method, kind="reweight"):
    """Train on all pairs, each loss times the pair's probability of being clean."""

    def train(self, context: "Context") -> Outputs:
        """Weigh the pairs."""
        params = context.exp.train.model_copy(update={"flagged": "weight"})
        flags = context.flags()["noise_flags"]
        return context.train(TRAIN_DPR, params, "reweight", pairs=context.noisy["noisy_pairs"], flags=flags)


class ReweightRelabel(Method, kind="reweight_relabel"):
    """Relabel the surest wrong pairs; weigh the others by their probability of being clean."""

    def train(self, context: "Context") -> Outputs:
        """Relabel, weigh, train."""
        params, repaired = context.exp.train.model_copy(update={"flagged": "weight"}), context.repaired()
        pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
        return context.train(TRAIN_DPR, params, "reweight_relabel", pairs=pairs, flags=flags)
