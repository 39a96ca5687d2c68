"""Steps of readers' pipelines: questions, labelled and read passages, and training, for all methods."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.eval.settings import ScoreConfidenceParams
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.reader_methods import ReaderMethod
from noisyir.pipelines.searching import encoded, searched
from noisyir.readers.settings import EnsembleParams, GoldRunParams, Passages, SpansParams
from noisyir.settings import Split
from noisyir.stages.reading.read import ENSEMBLE, READ
from noisyir.stages.reading.score_reading import SCORE_CONFIDENCE, SCORE_READING
from noisyir.stages.reading.spans import CONFUSING, GOLD, SPANS
from noisyir.stages.reading.train_reader import TRAIN_READER
from noisyir.stages.retrieval.bm25 import BM25, BM25_INDEX
from noisyir.stages.training.init_model import INIT_READER

ENSEMBLED = "ensemble"


@dataclass
class ReadingContext:
    """One experiment's questions and passages under one seed.  Steps that two methods share are one step of the plan.

    data: what ingest wrote; retriever: the model of dense passages, None where none are read; asked: the held-out
    questions' passages, by kind; label: stands in the names of the steps, where a plan has several seeds.
    """

    plan: Plan
    exp: Experiment
    data: Outputs
    retriever: Output | None = None
    label: str = ""
    asked: dict[str, Output] = field(default_factory=dict)

    def name(self, what: str) -> str:
        """A step's label."""
        return f"{self.label}:{what}" if self.label else what

    def hold_out(self) -> None:
        """Draw the held-out questions and find what is read for each, under the plan's present seed."""
        reader = self.exp.reader
        changes = {"splits": reader.score.splits, "max_questions": reader.held_out_questions, "max_spans": None}
        for kind in reader.passages:
            found = self._matched(kind, reader.spans.model_copy(update=changes), self.name(f"held_out:{kind}"))
            self.asked[kind] = found["passages"]

    def labelled(self, kind: Passages) -> Outputs:
        """The training questions' spans in these passages, and the passages."""
        return self._matched(kind, self.exp.reader.spans, self.name(kind))

    def train(self, method: ReaderMethod) -> Outputs:
        """A method's reader, its confidences and how training went."""
        reader = self.exp.reader
        spans = self.labelled(method.labels or reader.labels)["spans"]
        return self.plan.add(
            TRAIN_READER,
            method.settings(reader.train),
            self.name(method.kind),
            reader=self.start(),
            spans=spans,
            confusing=self.confusing() if method.is_cds else None,
            **self._texts(),
        )

    def start(self) -> Output:
        """The reader before training."""
        return self.plan.add(INIT_READER, self.exp.reader.init, self.label)["reader"]

    def confusing(self) -> Output:
        """The confusing passages of the distantly labelled ones."""
        bm25 = self.exp.bm25
        params = self.exp.reader.confusing.model_copy(update={"k1": bm25.k1, "b": bm25.b})
        spans = self.labelled(self.exp.reader.labels)["spans"]
        given = {"spans": spans, "corpus": self.data["corpus"], "answers": self.data["answers"]}
        return self.plan.add(CONFUSING, params, self.label, **self._lexical(), **given)["confusing"]

    def read(self, name: str, reader: Output) -> dict[str, Output]:
        """A reader's answers to the held-out questions, by kind of passages."""
        params, given = self.exp.reader.read, {"reader": reader, **self._texts()}
        return {
            kind: self.plan.add(READ, params, self.name(f"{name}:{kind}"), passages=passages, **given)["readings"]
            for kind, passages in self.asked.items()
        }

    def ensemble(self, readings: Mapping[str, Mapping[str, Output]]) -> dict[str, Output]:
        """The answers of several readers as one, by kind of passages."""
        params, found = EnsembleParams(n_best=self.exp.reader.read.n_best), {}
        for kind in self.asked:
            of_kind = {name: of_reader[kind] for name, of_reader in readings.items()}
            found[kind] = self.plan.add(ENSEMBLE, params, self.name(kind), readings=of_kind)["readings"]
        return found

    def score(self, name: str, readings: Mapping[str, Output]) -> Output:
        """Exact match and F1 of a reader's answers."""
        truth, params = {key: self.data[key] for key in ("answers", "queries", "qrels")}, self.exp.reader.score
        scored = self.plan.add(SCORE_READING, params, self.name(name), readings=readings, passages=self.asked, **truth)
        return scored["metrics"]

    def score_confidence(self, confidences: Mapping[str, Output]) -> Output:
        """How well methods' confidences tell right labels from wrong ones."""
        label, given = self.label, self.given()
        if len(confidences) == 1:
            label = self.name(next(iter(confidences)))
        scored = self.plan.add(SCORE_CONFIDENCE, ScoreConfidenceParams(), label, confidences=confidences, given=given)
        return scored["confidence_quality"]

    def given(self) -> Output:
        """The passages that the data itself calls relevant."""
        params, known = GoldRunParams(min_relevance=self.exp.data.min_relevance), ("qrels", "pairs")
        return self.plan.add(GOLD, params, self.label, **{key: self.data[key] for key in known})["gold_run"]

    def _matched(self, kind: Passages, params: SpansParams, label: str) -> Outputs:
        given = {key: self.data[key] for key in ("queries", "answers", "corpus")}
        return self.plan.add(SPANS, params, label, run=self._run(kind), **given)

    def _run(self, kind: Passages) -> Output:
        """The ranking that the passages come from, of training and of held-out questions; it makes no random choice."""
        reader = self.exp.reader
        splits: tuple[Split, ...] = tuple(dict.fromkeys((*reader.spans.splits, *reader.score.splits)))
        if kind == "given":
            return self.given()
        if kind == "bm25":
            bm25 = self.exp.bm25.model_copy(update={"splits": splits, "top_k": reader.spans.top_k})
            return self.plan.add(BM25, bm25, self.label, queries=self.data["queries"], **self._lexical())["bm25_run"]
        assert self.retriever is not None
        label, encode = self.name("dense"), self.exp.encode.model_copy(update={"splits": splits})
        vectors = encoded(self.plan, encode, self.data, self.retriever, label)
        search = self.exp.search.model_copy(update={"top_k": reader.spans.top_k})
        return searched(self.plan, self.exp, search, self.data, vectors, label)["dense_run"]

    def _lexical(self) -> Outputs:
        return self.plan.add(BM25_INDEX, self.exp.bm25_index, self.label, corpus=self.data["corpus"])

    def _texts(self) -> dict[str, Output]:
        return {key: self.data[key] for key in ("queries", "corpus")}
