"""Reader pipelines: of an experiment and of a bench."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from noisyir.base.settings import Split
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.evaluation.bench import Cell
from noisyir.evaluation.stages.compare import COMPARE
from noisyir.evaluation.stages.noise_table import NOISE_TABLE
from noisyir.methods.plans.bench import table_of
from noisyir.methods.plans.data import context_of, data_of
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.scoring import report_of
from noisyir.methods.plans.searching import Part, encoded, searched
from noisyir.methods.plans.suite import Suite
from noisyir.readers import settings
from noisyir.readers.stages.read import ENSEMBLE, READ, SCORE_CONFIDENCE, SCORE_READING
from noisyir.readers.stages.sections import BENCH_SECTION, LABEL_SECTION
from noisyir.readers.stages.spans import CONFUSING, GOLD, SPANS
from noisyir.readers.stages.train_reader import INIT_READER, TRAIN_READER
from noisyir.readers.task import ReaderMethod, ReaderTask, reader_of
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX

ENSEMBLED = "ensemble"


@dataclass
class ReadingContext(Part):
    """One experiment's questions and passages under one seed; steps shared by methods appear once in the plan.

    Attributes:
        retriever: Model for dense passages; None if none are read.
        asked: Passages of the held-out questions, by kind.
    """

    retriever: Output | None = None
    asked: dict[str, Output] = field(default_factory=dict)

    @property
    def reader(self) -> ReaderTask:
        """The experiment's reader settings."""
        return reader_of(self.exp)

    def hold_out(self) -> None:
        """Select the held-out questions and retrieve their passages, under the plan's current seed."""
        reader = self.reader
        changes = {"splits": reader.score.splits, "max_questions": reader.held_out_questions, "max_spans": None}
        for kind in reader.passages:
            found = self._matched(kind, reader.spans.model_copy(update=changes), self.name(f"held_out:{kind}"))
            self.asked[kind] = found["passages"]

    def labelled(self, kind: settings.Passages) -> Outputs:
        """Return the training questions' spans in these passages, and the passages."""
        return self._matched(kind, self.reader.spans, self.name(kind))

    def train(self, method: ReaderMethod) -> Outputs:
        """Train a method's reader; returns it with its confidences and learning curves."""
        reader = self.reader
        spans = self.labelled(method.labels or reader.labels)["spans"]
        return self.plan.add(
            TRAIN_READER,
            method.settings(reader.train),
            self.name(method.kind),
            reader=self.start(),
            spans=spans,
            confusing=self.confusing() if method.is_cds else None,
            **self.texts,
        )

    def start(self) -> Output:
        """The reader before training."""
        return self.plan.add(INIT_READER, self.reader.init, self.label)["reader"]

    def confusing(self) -> Output:
        """The confusing passages of the distantly labelled ones."""
        bm25 = self.exp.bm25
        params = self.reader.confusing.model_copy(update={"k1": bm25.k1, "b": bm25.b})
        spans = self.labelled(self.reader.labels)["spans"]
        given = {"spans": spans, "corpus": self.data["corpus"], "answers": self.data["answers"]}
        return self.plan.add(CONFUSING, params, self.label, **self._lexical(), **given)["confusing"]

    def read(self, name: str, reader: Output) -> dict[str, Output]:
        """Return a reader's answers to the held-out questions, by kind of passages."""
        params, given = self.reader.read, {"reader": reader, **self.texts}
        return {
            kind: self.plan.add(READ, params, self.name(f"{name}:{kind}"), passages=passages, **given)["readings"]
            for kind, passages in self.asked.items()
        }

    def ensemble(self, readings: Mapping[str, Mapping[str, Output]]) -> dict[str, Output]:
        """Merge the answers of several readers, by kind of passages."""
        params, found = settings.EnsembleParams(n_best=self.reader.read.n_best), {}
        for kind in self.asked:
            of_kind = {name: of_reader[kind] for name, of_reader in readings.items()}
            found[kind] = self.plan.add(ENSEMBLE, params, self.name(kind), readings=of_kind)["readings"]
        return found

    def score(self, name: str, readings: Mapping[str, Output]) -> Output:
        """Compute exact match and F1 of a reader's answers."""
        truth, params = {key: self.data[key] for key in ("answers", "queries", "qrels")}, self.reader.score
        scored = self.plan.add(SCORE_READING, params, self.name(name), readings=readings, passages=self.asked, **truth)
        return scored["metrics"]

    def score_confidence(self, confidences: Mapping[str, Output]) -> Output:
        """Measure how well the methods' confidences separate correct from wrong labels."""
        label, given = self.label, self.given()
        if len(confidences) == 1:
            label = self.name(next(iter(confidences)))
        scored = self.plan.add(
            SCORE_CONFIDENCE, settings.ScoreConfidenceParams(), label, confidences=confidences, given=given
        )
        return scored["confidence_quality"]

    def label_section(self, confidences: Mapping[str, Output]) -> Output:
        """Build the report's section on confidences, with cases of the last method."""
        *_, shown = confidences.values()
        params, texts = settings.LabelSectionParams(examples=self.exp.report.examples), self.texts
        labels = {"spans": self.labelled(self.reader.labels)["spans"], "confusing": self.confusing()}
        quality, given = self.score_confidence(confidences), self.given()
        return self.plan.add(
            LABEL_SECTION, params, self.label, confidences=shown, quality=quality, given=given, **labels, **texts
        )["sections"]

    def given(self) -> Output:
        """The passages that the data itself judges relevant."""
        params, known = settings.GoldRunParams(min_relevance=self.exp.data.min_relevance), ("qrels", "pairs")
        return self.plan.add(GOLD, params, self.label, **{key: self.data[key] for key in known})["gold_run"]

    def _matched(self, kind: settings.Passages, params: settings.SpansParams, label: str) -> Outputs:
        given = {key: self.data[key] for key in ("queries", "answers", "corpus")}
        return self.plan.add(SPANS, params, label, run=self._run(kind), **given)

    def _run(self, kind: settings.Passages) -> Output:
        """Return the ranking that supplies passages to training and held-out questions; makes no random choice."""
        reader = self.reader
        splits: tuple[Split, ...] = tuple(dict.fromkeys((*reader.spans.splits, *reader.score.splits)))
        if kind == "given":
            return self.given()
        if kind == "bm25":
            bm25 = self.exp.lexical_search.model_copy(update={"splits": splits, "top_k": reader.spans.top_k})
            return self.plan.add(BM25, bm25, self.label, queries=self.data["queries"], **self._lexical())["bm25_run"]
        assert self.retriever is not None
        vectors = encoded(self, self.exp.encode.model_copy(update={"splits": splits}), self.retriever, "dense")
        search = self.exp.search.model_copy(update={"top_k": reader.spans.top_k})
        return searched(self, search, vectors, "dense")["dense_run"]

    def _lexical(self) -> Outputs:
        return self.plan.add(BM25_INDEX, self.exp.bm25_index, self.label, corpus=self.data["corpus"])


def train_reader(exp: Experiment) -> Plan:
    """Plan the experiment's readers, their confidences, and their scores on the same held-out questions."""
    plan, params = Plan(exp.seed), reader_of(exp)
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
    sections: dict[str, Output] = {}
    if confidences:
        sections["labels"] = reading.label_section(confidences)
    curves = {name: trained[name]["curves"] for name in (exp.kept, *trained)}
    report = report_of(reading, comparison, metrics, {}, curves=curves, sections=sections)
    plan.keep(reader=trained[exp.kept]["reader"], comparison=comparison, report=report)
    return plan


def reader_bench(suite: Suite) -> Plan:
    """Plan every reader method of the suite under every seed, on the same held-out questions, with one result table."""
    table, plan = table_of(suite), Plan(suite.experiment.seed)
    metrics, confidence = dict[str, Output](), dict[str, Output]()
    for condition, variant in product(suite.conditions, suite.variants):
        plan.seed = suite.experiment.seed
        reading = _reading(plan, suite.variant(variant), variant)
        for seed in suite.seeds:
            plan.seed = seed
            of_seed = replace(reading, label=f"{seed}:{variant}" if variant else str(seed))
            for method in (each for each in suite.methods if isinstance(each, ReaderMethod)):
                name, trained = method.kind, of_seed.train(method)
                cell = str(Cell(condition.name, condition.rate, suite.arm(name, variant), seed))
                metrics[cell] = of_seed.score(name, of_seed.read(name, trained["reader"]))
                if method.is_cds:
                    confidence[cell] = of_seed.score_confidence({name: trained["confidences"]})
    plan.seed = suite.experiment.seed
    sections = (
        {"labels": plan.add(BENCH_SECTION, settings.BenchSectionParams(), confidence=confidence)["sections"]}
        if confidence
        else {}
    )
    table = table.model_copy(update={"conditions": "labels"})
    plan.keep(**plan.add(NOISE_TABLE, table, metrics=metrics, sections=sections))
    return plan


def _reading(plan: Plan, exp: Experiment, label: str = "") -> ReadingContext:
    """Set up the experiment's questions and passages, and select the held-out ones to read."""
    data, retriever = data_of(plan, exp), None
    if reader_of(exp).wants_dense:
        context = context_of(plan, exp, data, label)
        data = context.data
        method = reader_of(exp).retriever
        retriever = context.start if method is None else method.train(context)["model"]
    reading = ReadingContext(plan, exp, data, retriever, label=label)
    reading.hold_out()
    return reading
