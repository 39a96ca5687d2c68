"""The data that a plan trains on: ingested, prepared, cut, with documents hidden and noise put in."""

from noisyir.corruption.stages.corrupt import CORRUPT
from noisyir.corruption.stages.hide import HIDE
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Outputs
from noisyir.methods.plans.context import Context
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.searching import in_passages, pick
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.models.weights import refuse_unfit
from noisyir.retrieval.stages.encode import ENCODE


def data_of(plan: Plan, exp: Experiment, label: str = "") -> Outputs:
    """Ingest's outputs; in passages and with relevant documents hidden if the experiment wants that."""
    data = plan.add(INGEST, exp.data)
    for step in exp.prepare.values():
        data = {**data, **step.add_to(plan, data)}
    data = in_passages(plan, exp, data)
    if exp.hide.rate == 0:
        return data
    hidden = plan.add(HIDE, exp.hide, label, **pick(data, "corpus", "pairs", "qrels"))
    # hiding pairs leaves the collection unchanged: its index serves all seeds
    unchanged = {} if exp.hide.adds_documents else pick(data, "corpus")
    return {**data, **hidden, **unchanged}


def context_of(plan: Plan, exp: Experiment, data: Outputs, label: str = "") -> Context:
    """The experiment's pairs with noise put in, the collection after that, and the untrained model."""
    refuse_unfit(exp.model, exp.train.lora, exp.train.matryoshka, exp.encode.dimensions)
    start = plan.add(INIT_MODEL, exp.model)["model"]
    vectors = None
    if exp.noise.needs_vectors:  # never from kept states: the same wrong pairs whatever is trained
        texts, name = pick(data, "corpus", "queries"), f"{label}:for_noise" if label else "for_noise"
        vectors = plan.add(ENCODE, exp.encode, name, model=start, **texts)
    noisy = plan.add(
        CORRUPT,
        exp.noise,
        label,
        **pick(data, "pairs", "qrels", "corpus", "answers"),
        doc_vectors=vectors and vectors["doc_vectors"],
        queries=data["queries"] if exp.noise.needs_queries else None,
    )
    changed = pick(noisy, "corpus") if "corpus" in noisy else {}
    return Context(plan, exp, {**data, **changed}, noisy, start, label=label)
