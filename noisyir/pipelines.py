"""One short function per pipeline: what feeds what, stated once for every engine."""

from collections.abc import Mapping

from noisyir.config import Experiment
from noisyir.data.sources import source_digest
from noisyir.models.weights import weights_digest
from noisyir.plan import Output, Plan
from noisyir.stages.bm25 import BM25
from noisyir.stages.bm25_index import BM25_INDEX
from noisyir.stages.compare import COMPARE
from noisyir.stages.corrupt import CORRUPT
from noisyir.stages.encode import ENCODE
from noisyir.stages.index import INDEX
from noisyir.stages.ingest import INGEST
from noisyir.stages.init_model import INIT_MODEL
from noisyir.stages.mine import MINE
from noisyir.stages.report import REPORT
from noisyir.stages.score import SCORE
from noisyir.stages.search import SEARCH
from noisyir.stages.warm_up import WARM_UP

Outputs = Mapping[str, Output]


def train_retriever(exp: Experiment) -> Plan:
    """DPR on the experiment's pairs, beside BM25 and the untrained model, scored on the same held-out queries."""
    plan = Plan(exp.seed)
    data = plan.add(INGEST, exp.data, source=source_digest(exp.data))
    noisy = plan.add(CORRUPT, exp.noise, pairs=data["pairs"], **_pick(data, "qrels", "corpus", "answers"))
    lexical = plan.add(BM25_INDEX, exp.bm25_index, corpus=data["corpus"])
    bm25 = plan.add(BM25, exp.bm25, queries=data["queries"], **lexical)
    start = plan.add(INIT_MODEL, exp.model, weights=weights_digest(exp.model))
    zero_shot = _dense_run(plan, exp, data, start["model"], "zero_shot")
    trained = plan.add(
        WARM_UP,
        exp.train,
        model=start["model"],
        pairs=noisy["noisy_pairs"],
        negatives=_hard_negatives(plan, exp, data, lexical, noisy["noisy_pairs"]),
        **_pick(data, "queries", "corpus", "qrels"),
    )
    dense = _dense_run(plan, exp, data, trained["model"], "trained")
    runs = {"bm25": bm25["bm25_run"], "zero_shot": zero_shot["dense_run"], "trained": dense["dense_run"]}
    _score_and_report(plan, exp, data, runs, curves=trained["curves"])
    plan.keep(model=trained["model"], index=dense["index"], corpus=data["corpus"])
    return plan


def _dense_run(plan: Plan, exp: Experiment, data: Outputs, model: Output, label: str) -> Outputs:
    """Encode, index and search with one model; the index comes back beside the run."""
    texts = _pick(data, "corpus", "queries")
    vectors = plan.add(ENCODE, exp.encode, label, model=model, **texts)
    index = plan.add(INDEX, exp.index, label, doc_vectors=vectors["doc_vectors"])
    run = plan.add(SEARCH, exp.search, label, query_vectors=vectors["query_vectors"], corpus=data["corpus"], **index)
    return {**index, **run}


def _hard_negatives(plan: Plan, exp: Experiment, data: Outputs, lexical: Outputs, pairs: Output) -> Output | None:
    """Negatives mined from BM25's ranking of the training queries, where the experiment asks for any."""
    if exp.mine.per_query == 0:
        return None
    params = exp.bm25.model_copy(update={"splits": ("train",), "top_k": exp.mine.rank_to})
    run = plan.add(BM25, params, "train", queries=data["queries"], **lexical)
    known = _pick(data, "answers", "corpus")
    return plan.add(MINE, exp.mine, run=run["bm25_run"], pairs=pairs, **known)["negatives"]


def _score_and_report(plan: Plan, exp: Experiment, data: Outputs, runs: Outputs, *, curves: Output) -> None:
    """Score every run on the same queries, compare them, and write the page."""
    truth = _pick(data, "qrels", "queries", "answers", "corpus")
    scored = {label: plan.add(SCORE, exp.score, label, run=run, **truth) for label, run in runs.items()}
    metrics = {label: outputs["metrics"] for label, outputs in scored.items()}
    comparison = plan.add(COMPARE, exp.compare, metrics=metrics)["comparison"]
    about = _pick(data, "corpus", "queries", "pairs", "qrels", "excluded")
    params = exp.report.model_copy(update={"title": exp.report.title or exp.name})
    report = plan.add(REPORT, params, comparison=comparison, metrics=metrics, runs=runs, curves=curves, **about)
    plan.keep(comparison=comparison, report=report["report"])


def _pick(outputs: Outputs, *names: str) -> dict[str, Output]:
    return {name: outputs[name] for name in names}
