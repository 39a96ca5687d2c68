"""Training on all pairs, with drawn or with mined negatives, and on the right ones alone; no detector has a say."""

from typing import TYPE_CHECKING, ClassVar, Literal

from noisyir.base.errors import ConfigError
from noisyir.engine.stage import Outputs
from noisyir.methods.plans.method import Method
from noisyir.training.stages.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context


class Dpr(Method):
    """All pairs alike, unless the data gives them weights: what popular trainers do."""

    kind: Literal["dpr"] = "dpr"

    def train(self, context: "Context") -> Outputs:
        """Without hard negatives it is the warm-up of ANCE and AR2."""
        mined = {} if context.exp.train.hard_negatives else {"negatives": None}
        return context.train(TRAIN_DPR, context.exp.train, "dpr", pairs=context.noisy["noisy_pairs"], **mined)


class Ance(Method):
    """Rounds of mining with the model as it is, each followed by training on what it mined."""

    kind: Literal["ance"] = "ance"

    def train(self, context: "Context") -> Outputs:
        """DPR with in-batch negatives; then `refresh.rounds` rounds by any sampler, each starting where the last ended.

        With `mine.per_query: 0` the rounds go on with in-batch negatives: the control of what mining brings.
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
    """Nobody has this outside an experiment; it sees fewer queries, so that a method may beat it."""

    kind: Literal["oracle"] = "oracle"
    sees_truth: ClassVar[bool] = True

    def train(self, context: "Context") -> Outputs:
        """Without injected noise it is DPR."""
        if context.exp.noise.rate == 0:
            return Dpr().train(context)
        return context.train(TRAIN_DPR, context.exp.train, "oracle", pairs=context.noisy["clean_pairs"])
