"""AR2 (Zhang et al., ICLR 2022): a retriever and a ranker, trained against each other; no code that others use."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisyir.base.errors import ConfigError
from noisyir.data.artifacts import QRELS
from noisyir.engine.stage import Job, Output, Outputs, Stage
from noisyir.methods.plans.method import Method
from noisyir.models.artifacts import MODEL, RANKER
from noisyir.models.stages.init_model import INIT_RANKER
from noisyir.training.artifacts import AR2_STATE, CURVES
from noisyir.training.launch import in_processes
from noisyir.training.settings import Flagged, TrainAr2Params
from noisyir.training.stages.inputs import (
    RANKING_READS,
    dev_relevance,
    held_out,
    pairs_are_there,
    read_lists,
    start_model,
    start_ranker,
    training_context,
    write_curves,
)
from noisyir.training.stages.train_dpr import TRAIN_DPR
from noisyir.training.stages.warm_up_ranker import WARM_UP_RANKER

if TYPE_CHECKING:
    from noisyir.methods.ar2.rounds import Material
    from noisyir.methods.plans.context import Context
    from noisyir.methods.plans.experiment import Experiment
    from noisyir.models.bi_encoder import BiEncoder


class Ar2(Method, kind="ar2"):
    """A retriever and a ranker, in rounds."""

    def train(self, context: "Context") -> Outputs:
        """DPR with in-batch negatives; a ranker on its negatives; then `ar2.rounds` rounds that each mine again."""
        exp = context.exp
        trained = _begun(context, exp.mining_in(0))
        for number in range(exp.ar2.rounds):
            trained = _round(context, trained, str(number), f"ar2@{number}", exp.mining_in(number), exp.adversarial())
        return trained


class Ar2Continued(Method, kind="ar2_continued"):
    """AR2, and further rounds after its end."""

    def train(self, context: "Context") -> Outputs:
        """AR2, then `ar2.continued.rounds` rounds that mine with `ar2.continued.mine`.

        Samplers and the sieve were published as such continuations; the fair control has as many rounds, mined
        uniformly.
        """
        continued, finished = context.exp.ar2.continued, Ar2().train(context)
        trained: Outputs = {name: finished[name] for name in ("model", "ranker")}
        mining, params = context.exp.mining(continued.mine), context.exp.adversarial_further()
        for number in range(continued.rounds):
            trained = _round(context, trained, f"continued@{number}", f"ar2_continued@{number}", mining, params)
        return trained


def _begun(context: "Context", mining: "Experiment") -> Outputs:
    """Both models before the first round."""
    context.refuse_weights("ar2")
    exp, ranker = context.exp, initial_ranker(context)
    if exp.ar2.start_from == "weights":
        return {"model": context.start, "ranker": ranker}
    given = _given(context, exp.ar2.flagged)
    start = exp.train.model_copy(update={"hard_negatives": 0, "pool": "batch"})
    labels = {name: given[name] for name in ("pairs", "flags") if name in given}
    model = context.train(TRAIN_DPR, start, "warm_up", negatives=None, **labels)["model"]
    negatives = _negatives(context, model, "ar2@0", mining)
    params, name = exp.ranker.warm_up, context.name("ar2")
    return {
        "model": model,
        **context.plan.add(WARM_UP_RANKER, params, name, ranker=ranker, negatives=negatives, **given),
    }


def _round(
    context: "Context", trained: Outputs, number: str, label: str, mining: "Experiment", params: TrainAr2Params
) -> Outputs:
    """One round: mine with the current retriever, then train both models."""
    trained = context.plan.add(
        TRAIN_AR2,
        params,
        context.name(number),
        model=trained["model"],
        ranker=trained["ranker"],
        ar2_state=trained.get("ar2_state"),
        negatives=_negatives(context, trained["model"], label, mining),
        qrels=context.data["qrels"],
        **_given(context, params.flagged),
    )
    context.rounds[label] = trained["curves"]
    return trained


def _given(context: "Context", flagged: Flagged) -> Outputs:
    """Inputs of all training on lists; flags unless they are ignored."""
    given = {"pairs": context.noisy["noisy_pairs"], **context.texts}
    return given if flagged == "keep" else {**given, "flags": context.flags()["noise_flags"]}


def initial_ranker(context: "Context") -> Output:
    """The ranker before any training."""
    return context.plan.add(INIT_RANKER, context.exp.ranker.init, context.label)["ranker"]


def _negatives(context: "Context", model: Output, label: str, mining: "Experiment") -> Output:
    """The negatives of a round.

    Raises:
        ConfigError: If the experiment mines none.
    """
    negatives = context.mined(model, label, exp=mining)
    if negatives is None:
        raise ConfigError("methods.ar2_without_negatives")
    return negatives


@in_processes
def train_ar2(job: Job[TrainAr2Params]) -> None:
    """Train both models; write them, their optimisers for the next round, and the curves."""
    from noisyir.methods.ar2.rounds import train_round
    from noisyir.training.checkpoint import load_checkpoint, save_checkpoint

    encoder, ranker = start_model(job), start_ranker(job)
    material = _material(job, encoder)
    earlier = load_checkpoint(job.folder("ar2_state")) if job.has("ar2_state") else None
    curves, state = train_round(encoder, ranker, material, job.params, training_context(job), earlier)
    encoder.save(job.new_folder("model"))
    ranker.save(job.new_folder("ranker"))
    save_checkpoint(job.new_folder("ar2_state"), state)
    write_curves(job, curves)


def _material(job: Job[TrainAr2Params], encoder: "BiEncoder") -> "Material":
    """The lists, their texts tokenised for the retriever, and the dev queries."""
    from noisyir.methods.ar2.rounds import Material
    from noisyir.training.examples import TokenisedDocuments

    relevance = dev_relevance(job, job.table("queries").sort_by("query_id"))
    documents, lists = read_lists(job, job.params.n, relevance["doc_id"], soft=job.params.flagged == "soft")
    passages = encoder.tokenize(documents.texts.to_pylist(), "passage")
    held = held_out(job, encoder, relevance, TokenisedDocuments(documents.numbering, documents.same, passages))
    return Material(lists, encoder.tokenize(lists.queries.to_pylist(), "query"), passages, held)


def full_round(params: TrainAr2Params, start: Mapping[str, Any]) -> Sequence[Any]:
    """Both learners on texts of full length, for a dry run."""
    from noisyir.methods.ar2.rounds import Material, both_learners
    from noisyir.training import full_size

    encoder, ranker = full_size.bi_encoder(start["model"]), full_size.ranker(start["ranker"])
    count = max(params.ranker_batch_size, params.retriever_batch_size)
    queries = full_size.full_texts(count, encoder.shape.query_max_len)
    passages = full_size.full_texts(count * (1 + params.n), encoder.shape.passage_max_len)
    material = Material(full_size.full_lists(count, params.n), queries, passages, None)
    return both_learners(encoder, ranker, material, params, full_size.constant_rng)


TRAIN_AR2 = Stage(
    name="train_ar2",
    stream="ar2",
    version=2,
    params=TrainAr2Params,
    reads={
        "model": MODEL.all(),
        "ar2_state": AR2_STATE.all().or_none(),
        "qrels": QRELS["query_id", "doc_id", "relevance"],
        **RANKING_READS,
    },
    writes={"model": MODEL, "ranker": RANKER, "ar2_state": AR2_STATE, "curves": CURVES},
    run=train_ar2,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
    learners=full_round,
)
