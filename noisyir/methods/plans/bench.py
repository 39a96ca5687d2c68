"""The plan of a noise bench: every method under every kind and rate of noise and every seed, and one table."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

from noisyir.base.errors import ConfigError
from noisyir.base.pages.cells import rate_as_set
from noisyir.data.settings import GivenFileParams
from noisyir.data.stages.ingest import WEIGHTS_OF_OTHERS
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output
from noisyir.evaluation.bench import Cell, compared
from noisyir.evaluation.settings import LossSectionParams, NoiseTableParams
from noisyir.evaluation.stages.noise_table import NOISE_TABLE
from noisyir.methods.plans.context import Context
from noisyir.methods.plans.data import context_of, data_of
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.mining import MiningOutputs
from noisyir.methods.plans.scoring import losses_of_pairs, score_detection, score_losses, score_negatives, scored
from noisyir.methods.plans.searching import of_documents, pick, ranked
from noisyir.methods.plans.suite import Suite
from noisyir.retrieval.stages.search import RUN_OF_OTHERS
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR

_WEIGHTS = ("weights.csv", "weights.jsonl", "weights.parquet")
_RUN = "run.trec"


def noise_bench(suite: Suite) -> Plan:
    """Every method of the suite under every condition, seed and variant, and one table."""
    table, given = table_of(suite), files_of_others(suite)
    plan, results = Plan(suite.experiment.seed), {name: dict[str, Output]() for name in NOISE_TABLE.reads}
    first_seed: dict[str, Context] = {}
    for condition, seed, variant in product(suite.conditions, suite.seeds, suite.variants):
        plan.seed, plan.scope = seed, condition.set
        exp = suite.variant(variant, condition.set).model_copy(update=condition.change)
        label = f"{condition.kind}:{condition.rate:g}:{seed}" + (f":{variant}" if variant else "")
        context = context_of(plan, exp, data_of(plan, exp, label), label)
        if seed == suite.seeds[0]:
            first_seed[f"{variant and f' {variant}'}, {condition.name} {rate_as_set(condition.rate)}"] = context
        arms = _bench_arm(context, suite, variant)
        if variant == next(iter(suite.variants)):
            arms |= _arms_of_others(context, given[condition.folder(seed)])
        for (name, arm), found in arms.items():
            results[name][str(Cell(condition.name, condition.rate, arm, seed))] = found
    plan.seed, plan.scope = suite.experiment.seed, ""
    passes = _passes(plan, results["metrics"])
    table = table.model_copy(update={"passes": passes, "given": tuple(suite.given)})
    results["sections"] = dict(losses_of_pairs(plan, first_seed, LossSectionParams(shown=2)))
    plan.keep(**plan.add(NOISE_TABLE, table, **results))
    return plan


def table_of(suite: Suite) -> NoiseTableParams:
    """The settings of the suite's table."""
    table = suite.table
    if "reference" not in table.model_fields_set and table.reference not in suite.arms:
        table = table.model_copy(update={"reference": None})
    if suite.methods:
        compared(suite.arms, table.baseline, table.reference)
    return table


def _bench_arm(context: Context, suite: Suite, variant: str) -> dict[tuple[str, str], Output]:
    """The table's inputs, by input and arm, from one variant under one condition and seed."""
    exp = context.exp
    found: dict[tuple[str, str], Output] = {}
    for method in (each for each in suite.methods if isinstance(each, Method)):
        name, arm, trained = method.kind, suite.arm(method.kind, variant), method.train(context)
        run = ranked(context, trained["model"], name)["dense_run"]
        found["metrics", arm] = scored(context, run, name).metrics
        if exp.loss_groups and exp.mine.per_query:
            found["losses", arm] = score_losses(context, exp.loss_groups, trained["model"], name)
    if not suite.methods:
        context.mined(context.start)
    for name, mined in context.mines.items():
        arm = suite.arm(name.partition("@")[0] or "start", variant)
        found |= _bench_mining(context, mined, name, f"{arm} {name}" if len(context.mines) > 1 else arm)
    if suite.detect and variant == next(iter(suite.variants)):
        context.flags()
    if (detection := score_detection(context)) is not None:
        found["detection", suite.arm("detection", variant)] = detection
    return found


def _bench_mining(context: Context, mined: MiningOutputs, label: str, arm: str) -> dict[tuple[str, str], Output]:
    """The table's inputs from one mining, by input and arm."""
    found = {("sieve_curves", arm): mined.sieve_curves} if mined.sieve_curves else {}
    if "hidden" in context.data:
        found["mining", arm] = score_negatives(context, mined, label)
    return found


def files_of_others(suite: Suite) -> dict[str, dict[str, Path]]:
    """Files of weights or runs that others computed, by row, by the folder of a condition and seed.

    Raises:
        ConfigError: If a folder has nothing for the suite, or only some seeds of a condition.
    """
    found: dict[str, dict[str, Path]] = {
        condition.folder(seed): {} for condition, seed in product(suite.conditions, suite.seeds)
    }
    for name, folder in suite.given.items():
        for place, files in found.items():
            here = [Path(folder, place, file) for file in (*_WEIGHTS, _RUN) if Path(folder, place, file).is_file()]
            if len(here) > 1:
                raise ConfigError(
                    "methods.two_files_of_others", folder=here[0].parent, first=here[0].name, second=here[1].name
                )
            if here:
                files[name] = here[0]
        if not any(name in files for files in found.values()):
            wanted = Path(folder, next(iter(found)))
            raise ConfigError(
                "methods.no_files_of_others",
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
                missing = Path(folder, lacking[0])
                raise ConfigError("methods.seed_of_others_missing", folder=missing, weights=_WEIGHTS[0], run=_RUN)
    return found


def _arms_of_others(context: Context, given: dict[str, Path]) -> dict[tuple[str, str], Output]:
    """The scores of others' runs, and of plain training with others' weights."""
    plan, exp, found = context.plan, context.exp, dict[tuple[str, str], Output]()
    for name, path in given.items():
        params = GivenFileParams(path=str(path))
        if path.name == _RUN:
            read = pick(of_documents(context.data), "queries", "corpus")
            run = plan.add(RUN_OF_OTHERS, params, context.name(name), **read)["dense_run"]
        else:
            pairs = context.noisy["noisy_pairs"]
            weights = plan.add(WEIGHTS_OF_OTHERS, params, context.name(name), pairs=pairs)["given_weights"]
            trained = context.train(TRAIN_DPR, exp.train, name, pairs=pairs, weights=weights)
            run = ranked(context, trained["model"], name)["dense_run"]
        found["metrics", name] = scored(context, run, name).metrics
    return found


def _passes(plan: Plan, metrics: Mapping[str, Output]) -> dict[str, float]:
    """How often each arm's trainings read a pair's passages, epochs x (1 + negatives): the most of any condition.

    An upper bound, because of early stopping and pairs left out; scoring pairs is not counted.
    """
    steps = {step.name: step for step in plan.steps}
    found: dict[str, float] = {}
    for label, metric in metrics.items():
        behind, ahead = set[str](), [metric.step]
        while ahead:
            if (name := ahead.pop()) not in behind:
                behind.add(name)
                ahead += [output.step for output in steps[name].outputs_needed()]
        trained = (steps[name].params for name in behind)
        read = sum(each.epochs * (1.0 + each.hard_negatives) for each in trained if isinstance(each, TrainDprParams))
        arm = Cell.parse(label).method
        found[arm] = max(found.get(arm, 0.0), read)
    return {arm: read for arm, read in found.items() if read}
