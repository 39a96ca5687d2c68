"""Training without a detector: on all pairs, with refreshed negatives, of a static model, or on truly right pairs."""

from typing import TYPE_CHECKING, ClassVar

from noisyir.base.errors import ConfigError
from noisyir.engine.remote.fetched import located
from noisyir.engine.stage import Outputs
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.rules import rule_for
from noisyir.models.settings import InitModelParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.retrieval.settings import EncodeParams
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context


class Dpr(Method, kind="dpr"):
    """Plain contrastive training on all pairs, weighted if the data has weights."""

    def train(self, context: "Context") -> Outputs:
        """One training; without hard negatives it is the warm-up of ANCE and AR2."""
        mined = {} if context.exp.train.hard_negatives else {"negatives": None}
        return context.train(TRAIN_DPR, context.exp.train, "dpr", pairs=context.noisy["noisy_pairs"], **mined)


class Static(Method, kind="static"):
    """Plain training of a static model in addition to a transformer: on many short texts it may be the better one."""

    def train(self, context: "Context") -> Outputs:
        """Train the transformer's own table of token vectors, by the rule for static models and in-batch negatives."""
        exp = context.exp
        if exp.model.backbone == "static":
            raise ConfigError("methods.static_already")
        model = InitModelParams(weights=exp.model.weights)
        start = context.plan.add(INIT_MODEL, model, context.name(self.kind))["model"]
        shared = {name: getattr(exp.train, name) for name in ("patience", "dev_queries", "dev_documents")}
        rule = rule_for(model.backbone, located(exp.data).summary().pairs)
        params, pairs = TrainDprParams(**shared, **rule.settings), context.noisy["noisy_pairs"]
        return context.train(TRAIN_DPR, params, self.kind, pairs=pairs, model=start, negatives=None)

    def encoding(self, encode: EncodeParams) -> EncodeParams:
        """By torch and with whole vectors: other backends and shorter vectors are the transformer's."""
        return encode.model_copy(update={"backend": "torch", "precision": "fp32", "dimensions": None})


class Ance(Method, kind="ance"):
    """Rounds of mining with the current model, each followed by training."""

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


class Oracle(Method, kind="oracle"):
    """Training on the right pairs alone; a method may beat it, because it sees fewer queries."""

    sees_truth: ClassVar[bool] = True

    def train(self, context: "Context") -> Outputs:
        """One training; DPR if no noise was put in."""
        if context.exp.noise.rate == 0:
            return Dpr().train(context)
        return context.train(TRAIN_DPR, context.exp.train, "oracle", pairs=context.noisy["clean_pairs"])
