"""Measuring in a plan: runs scored and compared, detectors and miners held against the truth, one report."""

from collections.abc import Mapping
from typing import NamedTuple

from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.evaluation.recommendation import hybrid_of
from noisyir.evaluation.settings import LossSectionParams, RecommendParams, ScoreDetectionParams, ScoreLossGroupsParams
from noisyir.evaluation.stages.compare import COMPARE, RECOMMEND
from noisyir.evaluation.stages.loss_section import LOSS_SECTION
from noisyir.evaluation.stages.report import REPORT
from noisyir.evaluation.stages.score import SCORE
from noisyir.evaluation.stages.score_detection import SCORE_DETECTION
from noisyir.evaluation.stages.score_loss_groups import SCORE_LOSS_GROUPS
from noisyir.evaluation.stages.score_negatives import SCORE_NEGATIVES
from noisyir.methods.plans.context import Context
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.mining import MiningOutputs
from noisyir.methods.plans.searching import Part, by_best_passage, of_documents, pick


class ScoredRun(NamedTuple):
    """A system's run of whole documents, and its measures."""

    run: Output
    metrics: Output


def scored(context: Context, run: Output, label: str) -> ScoredRun:
    """A run in whole documents, with its measures."""
    run = by_best_passage(context, run, label)
    truth = pick(of_documents(context.data), "qrels", "queries", "answers", "corpus")
    scores = context.plan.add(SCORE, context.exp.score, context.name(label), run=run, **truth)
    return ScoredRun(run, scores["metrics"])


def score_detection(context: Context) -> Output | None:
    """The quality of the context's noise flags; None if no detector ran."""
    if not context.judged:
        return None
    flags = {name: outputs["noise_flags"] for name, outputs in context.judged.items()}
    estimates = {name: out["noise_estimate"] for name, out in context.judged.items() if "noise_estimate" in out}
    params, truth = ScoreDetectionParams(), context.noisy["noise_truth"]
    outputs = context.plan.add(SCORE_DETECTION, params, context.label, truth=truth, flags=flags, estimate=estimates)
    return outputs["detection"]


def score_negatives(context: Context, mined: MiningOutputs, label: str) -> Output:
    """The share of false negatives among the candidates, and among the negatives mined from them."""
    params = context.exp.score_negatives
    least = params.min_relevance or context.exp.data.min_relevance
    return context.plan.add(
        SCORE_NEGATIVES,
        params.model_copy(update={"min_relevance": least}),
        context.name(label or "start"),
        candidates=mined.candidates,
        negatives=mined.negatives,
        verdicts=mined.verdicts,
        hidden=context.data.get("hidden"),
        qrels=context.data["qrels"],
    )["mining_quality"]


def score_losses(context: Context, params: ScoreLossGroupsParams, model: Output, label: str) -> Output:
    """The losses of false and hard negatives, among the last candidates mined, under a trained model.

    Raises:
        ConfigError: If the method mined none.
    """
    if not context.mines:
        raise ConfigError("methods.loss_groups_without_negatives", method=label)
    *_, mined = context.mines.values()
    return context.plan.add(
        SCORE_LOSS_GROUPS,
        params.model_copy(update={"scale": context.exp.train.scale}),
        context.name(label),
        model=model,
        candidates=mined.candidates,
        pairs=context.noisy["noisy_pairs"],
        hidden=context.data.get("hidden"),
        **context.texts,
    )["loss_groups"]


def losses_of_pairs(plan: Plan, contexts: Mapping[str, Context], params: LossSectionParams) -> Outputs:
    """A section on the losses by which methods flagged pairs, if any did; a context's name follows the method's."""
    found = {
        f"{method}{name}": (context, made)
        for name, context in contexts.items()
        for method, made in context.judged.items()
        if "pair_scores" in made
    }
    if not found:
        return {}
    params = params.model_copy(update={"detection": {label: each.exp.npc_detect for label, (each, _) in found.items()}})
    scores, flags = (
        {label: made[name] for label, (_, made) in found.items()} for name in ("pair_scores", "noise_flags")
    )
    truth = {label: context.noisy["noise_truth"] for label, (context, _) in found.items()}
    return {"losses": plan.add(LOSS_SECTION, params, scores=scores, flags=flags, truth=truth)["sections"]}


def compare_and_report(context: Context, systems: Mapping[str, ScoredRun], models: Outputs, *, curves: Outputs) -> None:
    """Compare the systems and write the page; `models` are by method, and `curves` begin with the kept method's."""
    plan, exp, data = context.plan, context.exp, context.data
    runs = {label: system.run for label, system in systems.items()}
    metrics = {label: system.metrics for label, system in systems.items()}
    comparison = plan.add(COMPARE, exp.compare, metrics=metrics)["comparison"]
    usable = _usable(exp, runs)
    judged, params = pick(of_documents(data), "queries", "qrels"), RecommendParams(confidence=exp.compare.confidence)
    read = {"metrics": pick(metrics, *usable), "runs": pick(runs, *usable)}
    standings = plan.add(RECOMMEND, params, **read, **judged)["standings"]
    detection, mines = score_detection(context), context.mines.items()
    mining = [score_negatives(context, mined, name) for name, mined in mines if "hidden" in data]
    sieves = {name or "start": mined.sieve_curves for name, mined in mines if mined.sieve_curves}
    extras = {"detection": detection, "curves": curves, "mining": mining[-1] if mining else None}
    extras |= {"sieve_curves": sieves, "trials": context.tried, "standings": standings}
    groups = exp.loss_groups
    extras["losses"] = {name: score_losses(context, groups, model, name) for name, model in models.items() if groups}
    extras["sections"] = losses_of_pairs(plan, {"": context}, LossSectionParams())
    report = report_of(context, comparison, metrics, runs, **extras)
    plan.keep(comparison=comparison, standings=standings, report=report)
    plan.keep(**({"detection": detection} if detection else {}), **({"trials": context.tried} if context.tried else {}))


def _usable(exp: Experiment, runs: Outputs) -> list[str]:
    """The systems that a user could search with."""
    oracles = [method.kind for method in exp.methods if method.sees_truth]
    left_out = {*oracles, *map(hybrid_of, oracles), *(f"{method.kind}_reranked" for method in exp.methods)}
    return [name for name in runs if name not in left_out]


def report_of(
    part: Part, comparison: Output, metrics: Outputs, runs: Outputs, **extras: Output | Outputs | None
) -> Output:
    """The page; `extras` are its optional inputs."""
    plan, exp = part.plan, part.exp
    settings = exp.model_dump(mode="json", exclude_defaults=True)
    filled = {"title": exp.report.title or exp.name, "settings": settings, "published": exp.claims}
    params = exp.report.model_copy(update=filled)
    tables = pick(of_documents(part.data), "corpus", "queries", "pairs", "qrels", "excluded")
    if exp.report.corrected is not None and not runs:
        raise ConfigError("methods.corrected_answers")
    return plan.add(REPORT, params, comparison=comparison, metrics=metrics, runs=runs, **extras, **tables)["report"]
