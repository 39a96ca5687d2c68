"""RocketQA (Qu et al., NAACL 2021): a cross-encoder removes false negatives, and perhaps makes further pairs.

Cross-batch negatives are in-batch negatives of a large `train.batch_size`.  Every retriever starts from the untrained
model, as in the official code.
"""

from typing import TYPE_CHECKING

from noisyir.base.errors import ConfigError
from noisyir.engine.stage import Output, Outputs
from noisyir.methods.ar2 import initial_ranker
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.mining import TrainedJudge, retrieved
from noisyir.methods.plans.settings import AugmentParams
from noisyir.mining.judges import RankerJudge
from noisyir.mining.samplers import Uniform
from noisyir.mining.stages.hard_negatives import PSEUDO_LABEL
from noisyir.training.stages.train_dpr import TRAIN_DPR
from noisyir.training.stages.warm_up_ranker import WARM_UP_RANKER

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context
    from noisyir.methods.plans.experiment import Experiment


class Rocketqa(Method, kind="rocketqa"):
    """Denoised hard negatives, and perhaps pseudo-labelled pairs."""

    def train(self, context: "Context") -> Outputs:
        """Retriever 0; a ranker on its hits; retriever 1 without hits that the ranker keeps; perhaps retriever 2."""
        exp, pairs = context.exp, context.noisy["noisy_pairs"]
        _refuse(exp)
        context.refuse_weights("rocketqa")
        first = exp.train.model_copy(update={"hard_negatives": 0, "pool": "batch"})
        start = context.train(TRAIN_DPR, first, "rocketqa@0", pairs=pairs, negatives=None)["model"]
        judge = TrainedJudge(_ranker(context, start))
        trained = _trained(context, "rocketqa@1", pairs, start, judge)
        if exp.rocketqa.augment is not None:
            judged = {"rocketqa@1": context.mines["rocketqa@1"].verdicts["ranker"]}
            judge = TrainedJudge(judge.ranker, judged)
            made, verdicts = _pseudo_pairs(context, exp.rocketqa.augment, trained["model"], judge)
            judge = TrainedJudge(judge.ranker, {**judged, "augment": verdicts})
            trained = _trained(context, "rocketqa@2", made, trained["model"], judge)
        return {**trained, "ranker": judge.ranker}


def _trained(context: "Context", label: str, pairs: Output, model: Output, judge: TrainedJudge) -> Outputs:
    """A new retriever trained on these pairs, with negatives of `model` that the ranker calls irrelevant."""
    settings = context.exp.rocketqa
    epochs = settings.epochs or context.exp.train.epochs
    params = context.exp.train.model_copy(update={"hard_negatives": settings.hard_negatives, "epochs": epochs})
    negatives = context.mined(model, label, pairs=pairs, trained=judge)
    return context.train(TRAIN_DPR, params, label, pairs=pairs, negatives=negatives)


def _ranker(context: "Context", model: Output) -> Output:
    """The ranker, trained to give log odds on negatives drawn uniformly from the first retriever's hits."""
    params = context.exp.ranker.warm_up.model_copy(update={"loss": "pointwise"})
    mine = context.exp.mine
    depth = context.exp.rocketqa.ranker_rank_to or mine.rank_to
    uniform = mine.model_copy(update={"sampler": Uniform(), "per_query": params.n, "rank_to": depth})
    negatives = context.mined(model, "rocketqa@0", exp=context.exp.model_copy(update={"mine": uniform}))
    given = {"pairs": context.noisy["noisy_pairs"], **context.texts}
    return context.plan.add(
        WARM_UP_RANKER, params, context.name("rocketqa"), ranker=initial_ranker(context), negatives=negatives, **given
    )["ranker"]


def _pseudo_pairs(
    context: "Context", augment: AugmentParams, model: Output, judge: TrainedJudge
) -> tuple[Output, Output]:
    """All pairs, pseudo-labelled ones included, and the ranker's verdicts on the model's hits.

    Ranks that are skipped for negatives are included, and so are documents that hold an answer.
    """
    part, pairs = context.within("rocketqa@augment"), context.noisy["noisy_pairs"]
    changes = {"queries": augment.queries, "rank_from": 1, "answering": "keep"}
    which = context.exp.mine.candidates().model_copy(update=changes)
    verdicts = judge.verdicts(part, retrieved(part, which, model, pairs))
    given = {"verdicts": verdicts, "pairs": pairs, "queries": part.data["queries"]}
    return part.plan.add(PSEUDO_LABEL, augment.pairing(), part.label, **given)["pseudo_pairs"], verdicts


def _refuse(exp: "Experiment") -> None:
    """Check the settings.

    Raises:
        ConfigError: If they leave the method nothing to learn from, or the ranker gives no probabilities.
    """
    augment, judge = exp.rocketqa.augment, exp.judge("ranker")
    assert isinstance(judge, RankerJudge)
    bound = judge.max_relevance
    if exp.mine.per_query == 0:
        raise ConfigError("methods.rocketqa_without_negatives")
    if (depth := exp.rocketqa.ranker_rank_to) is not None and depth < exp.mine.rank_from:
        raise ConfigError("methods.rocketqa_ranks_empty", depth=depth, rank_from=exp.mine.rank_from)
    if exp.ranker.warm_up.loss == "listwise" and "loss" in exp.ranker.warm_up.model_fields_set:
        raise ConfigError("methods.rocketqa_listwise_ranker")
    if exp.ranker.warm_up.ranker_scale != 1.0:
        raise ConfigError("methods.rocketqa_scaled_ranker")
    if augment is None:
        return
    if augment.queries == "unlabelled" and exp.data.unlabelled == "exclude":
        raise ConfigError("methods.rocketqa_no_unlabelled")
    if augment.min_positive <= bound:
        raise ConfigError("methods.rocketqa_bounds_overlap", min_positive=augment.min_positive, bound=bound)
