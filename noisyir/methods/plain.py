"""Training without a detector: on all pairs, with refreshed negatives, or on the truly right pairs."""

from typing import TYPE_CHECKING, ClassVar, Literal

from noisyir.base.errors import ConfigError
from noisyir.engine.stage import Outputs
from noisyir.methods.plans.method import Method
from noisyir.training.stages.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context


class Dpr(Method):
    """Plain contrastive training on all pairs, weighted if the data has weights."""

    kind: Literal["dpr"] = "dpr"

    def train(self, context: "Context") -> Outputs:
        """One training; without hard negatives it is the warm-up of ANCE and AR2."""
        mined = {} if context.exp.train.hard_negatives else {"negatives": None}
        return context.train(TRAIN_DPR, context.exp.train, "dpr", pairs=context.noisy["noisy_pairs"], **mined)


class Ance(Method):
    """Rounds of mining with the current model, each followed by training."""

    kind: Literal["ance"] = "ance"

    def train(self, context: "Context") -> Outputs:
        """DPR with in-batch negatives, then `refresh.rounds` rounds that each continue the last.

        With `mine.per_query: 0` the rounds keep to in-batch negatives: the control for mining.
        """
        refresh, pairs = context.exp.refresh, context.noisy["noisy_pairs"]
        if context.exp.mine.per_query and not refresh.hard_negatives:
            raise ConfigError("methods.ance_ignores_negatives")
        start = context.exp.train.model_copy(update={"hard_negatives": 0, "pool": "batch"})
        trained = context.train(TRAIN_DPR, start, "warm_up", pairs=pairs, negatives=None)
        rate = refresh.learning_rate or start.learning_rate
        again = {"epochs": refresh.epochs, "learning_rate": rate, "warmup_ratio": 0.0, "ccr": refresh.ccr}
        for number in range(1, refresh.rounds + 1):
            label, model = f"ance@{number}", trained["model"]
            negatives = context.mined(model, label)
            if negatives:
                again |= {"hard_negatives": refresh.hard_negatives, "pool": context.exp.train.pool}
            params = start.model_copy(update=again)
            trained = context.train(TRAIN_DPR, params, label, pairs=pairs, model=model, negatives=negatives)
        return trained


class Oracle(Method):
    """Training on the right pairs alone; a method may beat it, because it sees fewer queries."""

    kind: Literal["oracle"] = "oracle"
    sees_truth: ClassVar[bool] = True

    def train(self, context: "Context") -> Outputs:
        """One training; DPR if no noise was put in."""
        if context.exp.noise.rate == 0:
            return Dpr().train(context)
        return context.train(TRAIN_DPR, context.exp.train, "oracle", pairs=context.noisy["clean_pairs"])
