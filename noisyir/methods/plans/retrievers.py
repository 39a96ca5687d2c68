"""One short function per pipeline: what feeds what, stated once for every engine."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from noisyir.audits.stages.audit_negatives import AUDIT_NEGATIVES
from noisyir.base.errors import ConfigError
from noisyir.corruption.stages.corrupt import CORRUPT
from noisyir.corruption.stages.hide import HIDE
from noisyir.data.settings import ChunkParams, GivenFileParams, JudgedPairsParams
from noisyir.data.stages.chunk import CHUNK
from noisyir.data.stages.ingest import INGEST, JUDGED_PAIRS, WEIGHTS_OF_OTHERS
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.evaluation.bench import Cell, compared
from noisyir.evaluation.recommendation import LEXICAL, START, hybrid_of
from noisyir.evaluation.settings import NoiseTableParams, RecommendParams, ScoreDetectionParams, ScoreLossGroupsParams
from noisyir.evaluation.stages.compare import COMPARE, RECOMMEND
from noisyir.evaluation.stages.noise_table import NOISE_TABLE
from noisyir.evaluation.stages.report import REPORT
from noisyir.evaluation.stages.score import SCORE
from noisyir.evaluation.stages.score_detection import SCORE_DETECTION
from noisyir.evaluation.stages.score_negatives import SCORE_LOSS_GROUPS, SCORE_NEGATIVES
from noisyir.methods.plans.context import Context
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.mining import MiningOutputs
from noisyir.methods.plans.searching import encoded, searched
from noisyir.methods.plans.suite import Suite
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.models.weights import refuse_unfit
from noisyir.retrieval.settings import BestPassagesParams, Bm25Params, HybridParams, SearchParams
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.fuse import FUSE
from noisyir.retrieval.stages.rerank import RERANK
from noisyir.retrieval.stages.search import BEST_PASSAGES, RUN_OF_OTHERS
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR


def train_retriever(exp: Experiment) -> Plan:
    """The experiment's methods, beside BM25 and the untrained model, scored on the same held-out queries."""
    plan = Plan(exp.seed)
    context = context_of(plan, exp, data_of(plan, exp))
    data = context.data
    lexical = plan.add(BM25_INDEX, exp.bm25_index, corpus=data["corpus"])
    bm25 = plan.add(BM25, deep_enough(exp.bm25, exp), queries=data["queries"], **lexical)["bm25_run"]
    scored = {LEXICAL: _scored(context, bm25, LEXICAL)}  # each as soon as it has ranked: a run that goes on tells it
    dense = {START: _ranked(plan, exp, data, context.start, START)["dense_run"]}
    scored[START] = _scored(context, dense[START], START)
    made: dict[str, Outputs] = {}
    of_methods: dict[str, ScoredRun] = {}
    for method in exp.methods:
        name, trained = method.kind, method.train(context)
        made[name] = {**trained, **_ranked(plan, exp, data, trained["model"], name)}
        dense[name] = made[name]["dense_run"]
        of_methods[name] = _scored(context, dense[name], name)
        if "ranker" in trained:
            read = {"ranker": trained["ranker"], "run": dense[name], **_pick(data, "queries", "corpus")}
            reranked = plan.add(RERANK, exp.ranker.rerank, name, **read)["reranked_run"]
            of_methods[f"{name}_reranked"] = _scored(context, reranked, f"{name}_reranked")
    kept = made[exp.kept]
    hybrids = _hybrids(context, bm25, dense)
    scored |= {name: _scored(context, hybrid["fused_run"], name) for name, hybrid in hybrids.items()}
    _compare_and_report(context, scored | of_methods, curves={name: made[name]["curves"] for name in (exp.kept, *made)})
    plan.keep(corpus=data["corpus"], **_pick(kept, *(name for name in ("model", "index", "ranker") if name in kept)))
    if exp.audited != "train":
        raise ConfigError("methods.audit_split_run_audits", audited=exp.audited)
    if context.lists is not None:
        plan.keep(teacher_scores=context.lists)
    if exp.hybrid is not None:
        plan.keep(fusion=hybrids[hybrid_of(exp.kept)]["fusion"])
    if exp.audit is not None:
        _audit(context)
    return plan


def _hybrids(context: Context, lexical: Output, dense: Outputs) -> dict[str, Outputs]:
    """BM25's run with that of each model, and how they were combined, by the hybrid's name."""
    if (params := context.exp.hybrid) is None:
        return {}
    judged = _pick(context.data, "queries", "qrels")
    deep = deep_enough(params, context.exp)
    return {
        hybrid_of(model): context.plan.add(FUSE, deep, model, lexical=lexical, dense=run, **judged)
        for model, run in dense.items()
    }


def audit_pairs(exp: Experiment) -> Plan:
    """Judge the training pairs by the experiment's detectors, or the relevant judgements of a held-out split."""
    plan = Plan(exp.seed)
    exp = exp.model_copy(update={"encode": exp.encode.model_copy(update={"splits": ("train",)})})
    _audit(context_of(plan, exp, data_of(plan, exp)) if exp.audited == "train" else _held_out_context(plan, exp))
    return plan


def _held_out_context(plan: Plan, exp: Experiment) -> Context:
    """The judgements of dev or test in the place of the training pairs, as they came: no noise, and nothing hidden.

    ConfigError where the experiment cuts documents, which are what people judged.
    """
    if exp.chunk.words is not None:
        raise ConfigError("methods.audit_judges_whole_documents", audited=exp.audited)
    data = plan.add(INGEST, exp.data)
    params = JudgedPairsParams(split=exp.audited, min_relevance=exp.data.min_relevance)
    held = plan.add(JUDGED_PAIRS, params, **_pick(data, "qrels", "queries", "pairs", "given_negatives"))
    start = plan.add(INIT_MODEL, exp.model)["model"]
    return Context(plan, exp, {**data, **held}, held, start)


def mine_pairs(exp: Experiment) -> Plan:
    """Hard negatives of the training queries, mined with the model that training would start from."""
    plan = Plan(exp.seed)
    context = context_of(plan, exp, data_of(plan, exp))
    negatives = context.mined(context.start)
    if negatives is None:
        raise ConfigError("methods.mine_per_query_mines")
    plan.keep(
        negatives=negatives,
        candidates=context.mines[""].candidates,
        pairs=context.noisy["noisy_pairs"],
        **_pick(context.data, "corpus", "queries"),
    )
    return plan


def teach_pairs(exp: Experiment) -> Plan:
    """The scored lists that the experiment's teacher gives the training queries."""
    plan = Plan(exp.seed)
    context = context_of(plan, exp, data_of(plan, exp))
    plan.keep(teacher_scores=context.teacher_scores(), pairs=context.noisy["noisy_pairs"])
    plan.keep(**_pick(context.data, "corpus", "queries"))
    return plan


def noise_bench(suite: Suite) -> Plan:
    """Every method of the suite on every kind and rate of noise under every seed, and one table of it all."""
    table, given = table_of(suite), files_of_others(suite)
    plan, results = Plan(suite.experiment.seed), {name: dict[str, Output]() for name in NOISE_TABLE.reads}
    for condition, seed, variant in product(suite.conditions, suite.seeds, suite.variants):
        plan.seed, plan.scope = seed, condition.set
        exp = suite.variant(variant, condition.set).model_copy(update=condition.change)
        label = f"{condition.kind}:{condition.rate:g}:{seed}" + (f":{variant}" if variant else "")
        arms = _bench_arm(plan, suite, exp, variant, label)
        if variant == next(iter(suite.variants)):
            arms |= _arms_of_others(plan, exp, label, given[condition.folder(seed)])
        for (name, arm), found in arms.items():
            results[name][str(Cell(condition.name, condition.rate, arm, seed))] = found
    plan.seed, plan.scope = suite.experiment.seed, ""
    passes = _passes(plan, results["metrics"])
    table = table.model_copy(update={"passes": passes, "given": tuple(suite.given)})
    plan.keep(**plan.add(NOISE_TABLE, table, **results))
    return plan


_WEIGHTS = ("weights.csv", "weights.jsonl", "weights.parquet")
_RUN = "run.trec"


def files_of_others(suite: Suite) -> dict[str, dict[str, Path]]:
    """By the folder of each condition and seed: the rows that others computed, and their files, weights or a run.

    ConfigError for a folder without any of the suite's, and for a condition with a part of the seeds.
    """
    found: dict[str, dict[str, Path]] = {
        condition.folder(seed): {} for condition, seed in product(suite.conditions, suite.seeds)
    }
    for name, folder in suite.given.items():
        for place, files in found.items():
            here = [Path(folder, place, file) for file in (*_WEIGHTS, _RUN) if Path(folder, place, file).is_file()]
            if len(here) > 1:
                raise ConfigError("methods.keep", parent=here[0].parent, name=here[0].name, name_2=here[1].name)
            if here:
                files[name] = here[0]
        if not any(name in files for files in found.values()):
            wanted = Path(folder, next(iter(found)))
            raise ConfigError(
                "methods.nothing_put_into",
                folder=folder,
                suite=suite.name,
                weights=_WEIGHTS[0],
                run=_RUN,
                wanted=wanted,
            )
        for condition in suite.conditions:
            places = [condition.folder(seed) for seed in suite.seeds]
            lacking = [place for place in places if name not in found[place]]
            if lacking and len(lacking) < len(places):
                here_not = Path(folder, lacking[0])
                raise ConfigError("methods.no_give_every_seed", here_not=here_not, weights=_WEIGHTS[0], run=_RUN)
    return found


def _arms_of_others(plan: Plan, exp: Experiment, label: str, given: dict[str, Path]) -> dict[tuple[str, str], Output]:
    """Plain training with each one's weights, or its run, scored as the methods are."""
    found: dict[tuple[str, str], Output] = {}
    for name, path in given.items():
        context, params = context_of(plan, exp, data_of(plan, exp, label), label), GivenFileParams(path=str(path))
        if path.name == _RUN:
            read = _pick(of_documents(context.data), "queries", "corpus")
            run = plan.add(RUN_OF_OTHERS, params, context.name(name), **read)["dense_run"]
        else:
            pairs = context.noisy["noisy_pairs"]
            weights = plan.add(WEIGHTS_OF_OTHERS, params, context.name(name), pairs=pairs)["given_weights"]
            trained = context.train(TRAIN_DPR, exp.train, name, pairs=pairs, weights=weights)
            run = _ranked(plan, exp, context.data, trained["model"], context.name(name))["dense_run"]
        found["metrics", name] = _scored(context, run, context.name(name)).metrics
    return found


def _passes(plan: Plan, metrics: Mapping[str, Output]) -> dict[str, float]:
    """Times that each arm's trainings read a pair's passages, the most of any condition: epochs x (1 + negatives).

    The budget of the protocol.  Early stopping and pairs left out make it less; scoring pairs is not counted.
    """
    steps = {step.name: step for step in plan.steps}
    found: dict[str, float] = {}
    for label, scored in metrics.items():
        behind, ahead = set[str](), [scored.step]
        while ahead:
            if (name := ahead.pop()) not in behind:
                behind.add(name)
                ahead += [output.step for output in steps[name].outputs_needed()]
        trained = (steps[name].params for name in behind)
        read = sum(each.epochs * (1.0 + each.hard_negatives) for each in trained if isinstance(each, TrainDprParams))
        arm = Cell.parse(label).method
        found[arm] = max(found.get(arm, 0.0), read)
    return {arm: read for arm, read in found.items() if read}


def table_of(suite: Suite) -> NoiseTableParams:
    """The settings of the suite's table.  ConfigError for what the table would refuse in the end."""
    table = suite.table
    if "reference" not in table.model_fields_set and table.reference not in suite.arms:
        table = table.model_copy(update={"reference": None})
    if suite.methods:
        compared(suite.arms, table.baseline, table.reference)
    return table


def _bench_arm(plan: Plan, suite: Suite, exp: Experiment, variant: str, label: str) -> dict[tuple[str, str], Output]:
    """The suite's methods with one variant, under one condition and seed: what the table is given, by input and arm."""
    context = context_of(plan, exp, data_of(plan, exp, label), label)
    found: dict[tuple[str, str], Output] = {}
    for method in (each for each in suite.methods if isinstance(each, Method)):
        name, arm, trained = method.kind, suite.arm(method.kind, variant), method.train(context)
        ranked = _ranked(plan, exp, context.data, trained["model"], context.name(name))["dense_run"]
        found["metrics", arm] = _scored(context, ranked, context.name(name)).metrics
        if suite.loss_groups and exp.mine.per_query:
            found["losses", arm] = _score_losses(context, suite.loss_groups, trained["model"], name)
    if not suite.methods:
        context.mined(context.start)
    for name, mined in context.mines.items():
        arm = suite.arm(name.partition("@")[0] or "start", variant)
        found |= _bench_mining(context, mined, name, f"{arm} {name}" if len(context.mines) > 1 else arm)
    if suite.detect and variant == next(iter(suite.variants)):
        context.flags()
    if (detection := _score_detection(context)) is not None:
        found["detection", suite.arm("detection", variant)] = detection
    return found


def _bench_mining(context: Context, mined: MiningOutputs, label: str, arm: str) -> dict[tuple[str, str], Output]:
    """One mining's inputs of the table, by input and arm."""
    found = {("sieve_curves", arm): mined.sieve_curves} if mined.sieve_curves else {}
    if "hidden" in context.data:
        found["mining", arm] = _score_negatives(context, mined, label)
    return found


def data_of(plan: Plan, exp: Experiment, label: str = "") -> Outputs:
    """Ingest's outputs, in passages and with some relevant documents hidden where the experiment wants that."""
    data = plan.add(INGEST, exp.data)
    for step in exp.prepare.values():
        data = {**data, **step.add_to(plan, data)}
    data = in_passages(plan, exp, data)
    if exp.hide.rate == 0:
        return data
    hidden = plan.add(HIDE, exp.hide, label, **_pick(data, "corpus", "pairs", "qrels"))
    # hiding pairs leaves the collection as it is: what is made of that serves all seeds
    as_it_was = {} if exp.hide.adds_documents else _pick(data, "corpus")
    return {**data, **hidden, **as_it_was}


def context_of(plan: Plan, exp: Experiment, data: Outputs, label: str = "") -> Context:
    """The experiment's pairs with noise put in, the collection as that leaves it, and the untrained model.

    ConfigError for a way of training that the model cannot be trained in.
    """
    refuse_unfit(exp.model, exp.train.lora, exp.train.matryoshka, exp.encode.dimensions)
    start = plan.add(INIT_MODEL, exp.model)["model"]
    vectors = None
    if exp.noise.needs_vectors:
        vectors = encoded(plan, exp.encode, data, start, f"{label}:zero_shot" if label else "zero_shot")
    noisy = plan.add(
        CORRUPT,
        exp.noise,
        label,
        **_pick(data, "pairs", "qrels", "corpus", "answers"),
        doc_vectors=vectors and vectors["doc_vectors"],
        queries=data["queries"] if exp.noise.needs_queries else None,
    )
    changed = _pick(noisy, "corpus") if "corpus" in noisy else {}
    return Context(plan, exp, {**data, **changed}, noisy, start, label)


def _audit(context: Context) -> None:
    """Verdicts on the context's pairs, with the evidence, as a table and as files for their owner."""
    params, flags = context.exp.audit or AuditParams(), context.flags()
    suspects: Outputs = {}
    if context.exp.mine.judges and context.exp.audited == "train":  # nothing is mined for held-out queries
        if not context.mines:
            context.mined(context.start)
        *_, mined = context.mines.values()
        suspects = context.plan.add(
            AUDIT_NEGATIVES,
            params.suspects(),
            pairs=context.noisy["noisy_pairs"],
            candidates=mined.candidates,
            verdicts=mined.verdicts,
            negatives=mined.negatives,
            **_pick(context.data, "corpus", "queries"),
        )
    elif (given := context.given_negatives()) is not None:
        suspects = context.plan.add(
            AUDIT_NEGATIVES,
            params.suspects(),
            pairs=context.noisy["noisy_pairs"],
            candidates=given["candidates"],
            verdicts={"ensemble": given["verdicts"]},
            **_pick(context.data, "corpus", "queries"),
        )
    written = context.plan.add(
        AUDIT,
        params,
        pairs=context.noisy["noisy_pairs"],
        flags=flags["noise_flags"],
        estimate=flags["noise_estimate"],
        kept_by_null=flags["kept_by_null"],
        competitors=context.competitors(),
        features=context.features(),
        **suspects,
        **_pick(context.data, "corpus", "queries"),
    )
    context.plan.keep(**written)


def _score_detection(context: Context) -> Output | None:
    """How well the context's wrong pairs were found, by whoever looked for them; None where nobody did."""
    if not context.judged:
        return None
    flags = {name: outputs["noise_flags"] for name, outputs in context.judged.items()}
    estimates = {name: out["noise_estimate"] for name, out in context.judged.items() if "noise_estimate" in out}
    params, truth = ScoreDetectionParams(), context.noisy["noise_truth"]
    scored = context.plan.add(SCORE_DETECTION, params, context.label, truth=truth, flags=flags, estimate=estimates)
    return scored["detection"]


def _score_negatives(context: Context, mined: MiningOutputs, label: str) -> Output:
    """How many of the candidates, and of the negatives mined from them, are relevant in truth."""
    params = context.exp.score_negatives
    least = params.min_relevance or context.exp.data.min_relevance
    scored = context.plan.add(
        SCORE_NEGATIVES,
        params.model_copy(update={"min_relevance": least}),
        context.name(label or "start"),
        candidates=mined.candidates,
        negatives=mined.negatives,
        verdicts=mined.verdicts,
        hidden=context.data.get("hidden"),
        qrels=context.data["qrels"],
    )
    return scored["mining_quality"]


def _score_losses(context: Context, params: ScoreLossGroupsParams, model: Output, label: str) -> Output:
    """How well a trained model tells the false negatives among the last candidates mined from the others.

    ConfigError where the method mined none.
    """
    if not context.mines:
        raise ConfigError("methods.loss_groups_mines_no", label=label)
    *_, mined = context.mines.values()
    scored = context.plan.add(
        SCORE_LOSS_GROUPS,
        params.model_copy(update={"scale": context.exp.train.scale}),
        context.name(label),
        model=model,
        candidates=mined.candidates,
        pairs=context.noisy["noisy_pairs"],
        hidden=context.data.get("hidden"),
        **_pick(context.data, "queries", "corpus"),
    )
    return scored["loss_groups"]


def _ranked(plan: Plan, exp: Experiment, data: Outputs, model: Output, label: str) -> Outputs:
    """The held-out queries' run by one model, and the index that gave it."""
    vectors = encoded(plan, exp.encode, data, model, label)
    return searched(plan, exp, deep_enough(exp.search, exp), data, vectors, label)


class ScoredRun(NamedTuple):
    """A system's run, of whole documents, and its measures."""

    run: Output
    metrics: Output


def _scored(context: Context, run: Output, label: str) -> ScoredRun:
    plan, exp, data = context.plan, context.exp, context.data
    run = by_best_passage(plan, exp, data, run, label)
    truth = _pick(of_documents(data), "qrels", "queries", "answers", "corpus")
    return ScoredRun(run, plan.add(SCORE, exp.score, label, run=run, **truth)["metrics"])


def _compare_and_report(context: Context, systems: Mapping[str, ScoredRun], *, curves: Outputs) -> None:
    """Compare the systems, scored on the same queries, and write the page.  curves: the kept method's first."""
    plan, exp, data = context.plan, context.exp, context.data
    runs = {label: scored.run for label, scored in systems.items()}
    metrics = {label: scored.metrics for label, scored in systems.items()}
    comparison = plan.add(COMPARE, exp.compare, metrics=metrics)["comparison"]
    usable = _usable(exp, runs)
    asked = {"metrics": {name: metrics[name] for name in usable}, "runs": {name: runs[name] for name in usable}}
    judged = _pick(of_documents(data), "queries", "qrels")
    standings = plan.add(RECOMMEND, RecommendParams(confidence=exp.compare.confidence), **asked, **judged)["standings"]
    detection, mines = _score_detection(context), context.mines.items()
    mining = [_score_negatives(context, mined, name) for name, mined in mines if "hidden" in data]
    sieves = {name or "start": mined.sieve_curves for name, mined in mines if mined.sieve_curves}
    told = {"detection": detection, "curves": curves, "mining": mining[-1] if mining else None, "sieve_curves": sieves}
    told |= {"trials": context.tried, "standings": standings}
    report = report_of(plan, exp, data, comparison, metrics, runs, **told)
    plan.keep(
        comparison=comparison, standings=standings, report=report, **({"detection": detection} if detection else {})
    )
    if context.tried is not None:
        plan.keep(trials=context.tried)


def _usable(exp: Experiment, runs: Outputs) -> list[str]:
    """The systems that may be recommended: those that somebody can search with."""
    of_truth = [method.kind for method in exp.methods if method.sees_truth]
    left_out = {*of_truth, *map(hybrid_of, of_truth), *(f"{method.kind}_reranked" for method in exp.methods)}
    return [name for name in runs if name not in left_out]


def report_of(
    plan: Plan,
    exp: Experiment,
    data: Outputs,
    comparison: Output,
    metrics: Outputs,
    runs: Outputs,
    **told: Output | Outputs | None,
) -> Output:
    """The page, with what else there is to tell."""
    settings = exp.model_dump(mode="json", exclude_defaults=True)
    filled = {"title": exp.report.title or exp.name, "settings": settings, "published": exp.published}
    params = exp.report.model_copy(update=filled)
    about = _pick(of_documents(data), "corpus", "queries", "pairs", "qrels", "excluded")
    return plan.add(REPORT, params, comparison=comparison, metrics=metrics, runs=runs, **told, **about)["report"]


def _pick(outputs: Outputs, *names: str) -> dict[str, Output]:
    return {name: outputs[name] for name in names}


P = TypeVar("P", SearchParams, Bm25Params, HybridParams)
_OF_DOCUMENTS = ("corpus", "pairs", "qrels")
_WHOLE = "whole_"


def in_passages(plan: Plan, exp: Experiment, data: Outputs) -> Outputs:
    """The data with its documents cut, where the experiment wants that; the tables of documents stay beside them."""
    if exp.chunk.words is None:
        return data
    read = {name: data[name] for name in (*_OF_DOCUMENTS, "queries", "answers", "given_negatives")}
    whole = {f"{_WHOLE}{name}": data[name] for name in _OF_DOCUMENTS}
    how = ChunkParams(words=exp.chunk.words, overlap=exp.chunk.overlap)  # how deep is searched cuts nothing
    return {**data, **whole, **plan.add(CHUNK, how, **read)}


def of_documents(data: Outputs) -> Outputs:
    """The data as it was before its documents were cut, if they were."""
    return {**data, **{name: data[f"{_WHOLE}{name}"] for name in _OF_DOCUMENTS if f"{_WHOLE}{name}" in data}}


def deep_enough(params: P, exp: Experiment) -> P:
    """A search for so many passages that enough documents are among them."""
    return params if exp.chunk.words is None else params.model_copy(update={"top_k": params.top_k * exp.chunk.depth})


def by_best_passage(plan: Plan, exp: Experiment, data: Outputs, run: Output, label: str) -> Output:
    """A run as one of documents, as many as `exp.search` says; as it stands where documents were not cut."""
    if "cut_passages" not in data:
        return run
    kept = BestPassagesParams(top_k=exp.search.top_k)
    return plan.add(BEST_PASSAGES, kept, label, run=run, passages=data["cut_passages"])["dense_run"]
