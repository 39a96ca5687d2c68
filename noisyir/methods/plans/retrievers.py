"""The plans of retrievers: training and comparison, mining alone."""

from collections.abc import Iterator

from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.evaluation.recommendation import LEXICAL, START, as_is, hybrid_of
from noisyir.methods.plans.audit import add_audit
from noisyir.methods.plans.context import Context
from noisyir.methods.plans.data import context_of, data_of
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.scoring import ScoredRun, compare_and_report, scored
from noisyir.methods.plans.searching import deep_enough, pick, ranked
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.fuse import FUSE
from noisyir.retrieval.stages.rerank import RERANK


def train_retriever(exp: Experiment) -> Plan:
    """The experiment's methods, BM25, the untrained model and models as they are, scored on the same queries."""
    plan = Plan(exp.seed)
    context = context_of(plan, exp, data_of(plan, exp))
    data = context.data
    lexical = plan.add(BM25_INDEX, exp.bm25_index, corpus=data["corpus"])
    bm25 = plan.add(BM25, deep_enough(exp.lexical_search, exp), queries=data["queries"], **lexical)["bm25_run"]
    systems = {LEXICAL: scored(context, bm25, LEXICAL)}  # each is scored as soon as it ranked, to show in progress
    dense: dict[str, Output] = {}
    for name, run in _without_training(context):
        dense[name], systems[name] = run, scored(context, run, name)
    made: dict[str, Outputs] = {}
    trained_systems: dict[str, ScoredRun] = {}
    for method in exp.methods:
        name, trained = method.kind, method.train(context)
        encode = method.encoding(exp.encode)
        made[name] = {**trained, **ranked(context, trained["model"], name, encode)}
        dense[name] = made[name]["dense_run"]
        trained_systems[name] = scored(context, dense[name], name)
        if "ranker" in trained:
            read = {"ranker": trained["ranker"], "run": dense[name], **context.texts}
            reranked = plan.add(RERANK, exp.ranker.rerank, name, **read)["reranked_run"]
            trained_systems[f"{name}_reranked"] = scored(context, reranked, f"{name}_reranked")
    kept = made[exp.kept]
    hybrids = _hybrids(context, bm25, dense)
    systems |= {name: scored(context, hybrid["fused_run"], name) for name, hybrid in hybrids.items()}
    curves = {exp.kept: kept["curves"], **context.rounds, **{name: each["curves"] for name, each in made.items()}}
    models = {name: each["model"] for name, each in made.items()}
    compare_and_report(context, systems | trained_systems, models, curves=curves)
    plan.keep(corpus=data["corpus"], **pick(kept, *(name for name in ("model", "index", "ranker") if name in kept)))
    if exp.audited != "train":
        raise ConfigError("methods.run_audits_training_pairs", audited=exp.audited)
    if context.lists is not None:
        plan.keep(teacher_scores=context.lists)
    if exp.hybrid is not None:
        plan.keep(fusion=hybrids[hybrid_of(exp.kept)]["fusion"])
    if exp.audit is not None:
        add_audit(context)
    return plan


def _without_training(context: Context) -> Iterator[tuple[str, Output]]:
    """The runs of the untrained model and of models as they are, by the system's name."""
    exp = context.exp
    context.kept_states(exp.train)  # the untrained model reads them, too
    yield START, ranked(context, context.start, START)["dense_run"]
    for name, params in exp.as_is.items():
        if params.model() != exp.model:  # else it is the untrained model
            model, label = context.plan.add(INIT_MODEL, params.model(), name)["model"], as_is(name)
            yield label, ranked(context, model, label, params.encoding(exp.encode))["dense_run"]


def _hybrids(context: Context, lexical: Output, dense: Outputs) -> dict[str, Outputs]:
    """BM25's run fused with each model's, and the fusion, by the hybrid's name."""
    if (params := context.exp.hybrid) is None:
        return {}
    judged = pick(context.data, "queries", "qrels")
    deep = deep_enough(params, context.exp)
    return {
        hybrid_of(model): context.plan.add(FUSE, deep, model, lexical=lexical, dense=run, **judged)
        for model, run in dense.items()
    }


def mine_pairs(exp: Experiment) -> Plan:
    """Hard negatives of the training queries, mined with the model that training would start from."""
    plan = Plan(exp.seed)
    context = context_of(plan, exp, data_of(plan, exp))
    negatives = context.mined(context.start)
    if negatives is None:
        raise ConfigError("methods.nothing_to_mine")
    plan.keep(
        negatives=negatives,
        candidates=context.mines[""].candidates,
        pairs=context.noisy["noisy_pairs"],
        **context.texts,
    )
    return plan
