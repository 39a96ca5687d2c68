"""The pipelines of readers, and which pipeline an experiment or a suite wants."""

from dataclasses import replace
from itertools import product

from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output
from noisyir.eval.bench import Cell
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.reader_steps import ENSEMBLED, ReadingContext
from noisyir.pipelines.retrievers import (
    context_of,
    data_of,
    noise_bench,
    report_of,
    table_of,
    train_retriever,
)
from noisyir.pipelines.suite import Suite
from noisyir.stages.results.compare import COMPARE
from noisyir.stages.results.noise_table import NOISE_TABLE


def pipeline_of(exp: Experiment) -> Plan:
    """The plan of what the experiment trains."""
    return train_reader(exp) if exp.task == "reader" else train_retriever(exp)


def bench_of(suite: Suite) -> Plan:
    """The plan of a suite of retrievers, or of readers."""
    return reader_bench(suite) if suite.experiment.task == "reader" else noise_bench(suite)


def train_reader(exp: Experiment) -> Plan:
    """The experiment's readers on distant labels, scored on the same held-out questions, and their confidences."""
    plan, params = Plan(exp.seed), exp.reader
    reading = _reading(plan, exp)
    trained = {method.kind: reading.train(method) for method in params.methods}
    readings = {name: reading.read(name, outputs["reader"]) for name, outputs in trained.items()}
    others = [name for name in trained if name != exp.kept]
    if params.ensemble:
        readings[ENSEMBLED] = reading.ensemble({name: readings[name] for name in params.ensemble})
        others.append(ENSEMBLED)
    metrics = {name: reading.score(name, readings[name]) for name in (*others, exp.kept)}
    comparison = plan.add(COMPARE, exp.compare, metrics=metrics)["comparison"]
    confidences = {method.kind: trained[method.kind]["confidences"] for method in params.methods if method.is_cds}
    cases: dict[str, Output] = {}
    if confidences:
        quality = reading.score_confidence(confidences)
        spans, confusing = reading.labelled(params.labels)["spans"], reading.confusing()
        *_, shown = confidences.values()
        labels = {"spans": spans, "confusing": confusing, "given": reading.given()}
        cases = {"confidences": shown, "quality": quality, **labels}
    report = report_of(plan, exp, reading.data, comparison, metrics, {}, curves=trained[exp.kept]["curves"], **cases)
    plan.keep(reader=trained[exp.kept]["reader"], comparison=comparison, report=report)
    return plan


def reader_bench(suite: Suite) -> Plan:
    """Every reader method of the suite under every seed, on the same held-out questions, and one table of it all."""
    table, plan = table_of(suite), Plan(suite.experiment.seed)
    results = {name: dict[str, Output]() for name in NOISE_TABLE.reads}
    for (labels, rate, _), variant in product(suite.conditions, suite.variants):
        plan.seed = suite.experiment.seed
        reading = _reading(plan, suite.variant(variant), variant)
        for seed in suite.seeds:
            plan.seed = seed
            of_seed = replace(reading, label=f"{seed}:{variant}" if variant else str(seed))
            for method in suite.readers:
                name, trained = method.kind, of_seed.train(method)
                cell = str(Cell(labels, rate, suite.arm(name, variant), seed))
                results["metrics"][cell] = of_seed.score(name, of_seed.read(name, trained["reader"]))
                if method.is_cds:
                    results["confidence"][cell] = of_seed.score_confidence({name: trained["confidences"]})
    plan.seed = suite.experiment.seed
    plan.keep(**plan.add(NOISE_TABLE, table.model_copy(update={"conditions": "labels"}), **results))
    return plan


def _reading(plan: Plan, exp: Experiment, label: str = "") -> ReadingContext:
    """The experiment's questions, their passages, and which held-out ones are read."""
    data, retriever = data_of(plan, exp), None
    if exp.reader.wants_dense:
        context = context_of(plan, exp, data, label)
        data = context.data
        retriever = context.start if exp.reader.retriever is None else exp.reader.retriever.train(context)["model"]
    reading = ReadingContext(plan, exp, data, retriever, label)
    reading.hold_out()
    return reading
