"""DistDR (Zhao et al., EMNLP 2021): a retriever that finds its own positives by the answers alone."""

from typing import TYPE_CHECKING

from noisyir.engine.stage import Output, Outputs
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.mining import training_run
from noisyir.methods.plans.searching import pick
from noisyir.mining.stages.evidence import EVIDENCE
from noisyir.training.stages.train_dpr import TRAIN_DPR

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context
    from noisyir.methods.plans.experiment import Experiment


class DistDr(Method, kind="dist_dr"):
    """Rounds that pair each query with the best ranked document that holds an answer, and train on."""

    def train(self, context: "Context") -> Outputs:
        """DPR on BM25's evidence, then `refresh.rounds` rounds on the evidence that the model itself ranks first."""
        context.refuse_weights("dist_dr")
        exp, refresh = context.exp, context.exp.refresh
        trained = _trained(
            context, "dist_dr@0", exp.mining({"run": "bm25"}), exp.train.hard_negatives, context.start, {}
        )
        again = {"epochs": refresh.epochs, "warmup_ratio": 0.0, "ccr": refresh.ccr}
        again["learning_rate"] = refresh.learning_rate or exp.train.learning_rate
        for number in range(1, refresh.rounds + 1):
            label = f"dist_dr@{number}"
            trained = _trained(context, label, exp, refresh.hard_negatives, trained["model"], again)
        return trained


def _trained(
    context: "Context", label: str, exp: "Experiment", count: int, model: Output, changes: dict[str, object]
) -> Outputs:
    """The model, trained on with evidence of the ranking that `exp` mines by, and with its negatives."""
    pairs = context.noisy["noisy_pairs"]
    run, _ = training_run(context.within(label, exp), model, pairs)
    read = {"run": run, "pairs": pairs, **pick(context.data, "queries", "answers", "corpus")}
    found = context.plan.add(EVIDENCE, context.exp.evidence, context.name(label), **read)["evidence_pairs"]
    negatives = context.mined(model, label, exp=exp, pairs=found) if count else None
    params = context.exp.train.model_copy(update={**changes, "hard_negatives": count if negatives else 0})
    return context.train(TRAIN_DPR, params, label, pairs=found, model=model, negatives=negatives)
