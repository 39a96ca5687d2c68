"""The context of a denoising method: a plan to add its steps to, the data, the pairs, and the start model."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from noisyir.audits.stages.audit_negatives import JOIN_NEGATIVES, JUDGE_NEGATIVES
from noisyir.base.errors import ConfigError
from noisyir.base.settings import Params
from noisyir.data.formats.pairs import Pairs
from noisyir.data.stages.ingest import GIVEN
from noisyir.detection.detectors import Detector
from noisyir.detection.detectors.ensemble import Ensemble
from noisyir.detection.stages.detect import DETECT, REPAIR
from noisyir.detection.stages.score_pairs import SCORE_PAIRS
from noisyir.engine.plan import Plan
from noisyir.engine.remote.fetched import located
from noisyir.engine.stage import Output, Outputs, Stage
from noisyir.methods.plans.mining import MiningOutputs, TrainedJudge, mine, taught
from noisyir.retrieval.settings import Bm25IndexParams
from noisyir.retrieval.stages.bm25 import BM25_INDEX

if TYPE_CHECKING:
    from noisyir.methods.plans.experiment import Experiment


@dataclass
class Context:
    """One experiment's noisy pairs under one seed.  Steps that two methods share are one step of the plan.

    It grows with the plan: it remembers who judged and what was mined.

    data: what ingest wrote, with the collection as the noise leaves it; noisy: what corrupt wrote; start: the
    untrained model;
    label: stands in the names of the steps, where a plan has several contexts.
    judged: the outputs of those who flagged pairs so far; mines: what was mined so far: both for scoring them.
    trial: training queries held out to try methods on; training_seed: of training, where it is not the plan's.
    tried: what a method tried before it chose; lists: those that a teacher scored.
    """

    plan: Plan
    exp: "Experiment"
    data: Outputs
    noisy: Outputs
    start: Output
    label: str = ""
    judged: dict[str, Outputs] = field(default_factory=dict)
    mines: dict[str, MiningOutputs] = field(default_factory=dict)
    trial: Output | None = None
    training_seed: int | None = None
    tried: Output | None = None
    lists: Output | None = None

    def name(self, what: str) -> str:
        """A step's label."""
        return f"{self.label}:{what}" if self.label else what

    def train(self, stage: Stage, params: Params, label: str, **inputs: Output | None) -> Outputs:
        """Train by a stage that reads what DPR's does; `inputs` are the pairs, and perhaps flags.

        Training starts from the untrained model, with the negatives that it mined, unless `inputs` say otherwise, and
        weighs the pairs as the data does, where it does.
        """
        given = {name: self.data[name] for name in ("queries", "corpus", "qrels")} | {"model": self.start}
        weights = self._given_weights()
        if weights is not None:
            given["weights"] = weights
        if "negatives" not in inputs:
            inputs["negatives"] = self.mined(self.start)
        held = {} if self.trial is None else {"trial": self.trial}
        with self.plan.seeded(self.plan.seed if self.training_seed is None else self.training_seed):
            trained = self.plan.add(stage, params, self.name(label), **{**given, **inputs, **held})
        if "noise_flags" in trained:
            self.judged[label] = trained
        return trained

    def mined(
        self,
        model: Output,
        label: str = "",
        *,
        exp: "Experiment | None" = None,
        pairs: Output | None = None,
        trained: TrainedJudge | None = None,
    ) -> Output | None:
        """Hard negatives mined with a model; None where the experiment asks for none.

        exp, pairs: the context's unless others are given; trained: a judge beside those of `mine.judges`.
        """
        exp, pairs = exp or self.exp, pairs or self.noisy["noisy_pairs"]
        if exp.mine.per_query == 0:
            return None
        name = self.name(label) if label else self.label
        found = self.mines[label] = mine(self.plan, exp, self.data, model, pairs, name, trained)
        return found.negatives

    def teacher_scores(self) -> Output:
        """The scored lists that the experiment's teacher gives the training queries."""
        pairs = {"pairs": self.noisy["noisy_pairs"]} | ({} if self.trial is None else {"trial": self.trial})
        self.lists = taught(self.plan, self.exp, self.data, self.start, pairs, self.label)
        return self.lists

    def scores(self, name: str, detector: Detector, pairs: Output | None = None) -> Outputs:
        """The noisy pairs, unless others are given, scored by one detector, starting from the untrained model."""
        index = None
        detector = detector.resolved(self.exp.model)
        if detector.lexical:
            engine = Bm25IndexParams(engine="bm25s")
            index = self.plan.add(BM25_INDEX, engine, self.name("for_pairs"), corpus=self.data["corpus"])[
                "lexical_index"
            ]
        return self.plan.add(
            SCORE_PAIRS,
            detector,
            self.name(name),
            model=self.start,
            pairs=pairs or self.noisy["noisy_pairs"],
            lexical_index=index,
            negatives=self.mined(self.start) if detector.negatives_needed else None,
            queries=self.data["queries"],
            corpus=self.data["corpus"],
        )

    def flags(self) -> Outputs:
        """The verdicts of the experiment's detectors on the noisy pairs, and the noise rate."""
        scores = {name: self.scores(name, detector)["pair_scores"] for name, detector in self.exp.detectors.items()}
        flags = self.judged["detectors"] = self.plan.add(DETECT, self.exp.detect, self.label, scores=scores)
        return flags

    def refuse_weights(self, method: str) -> None:
        """ConfigError where the data gives its pairs weights, for methods that cannot count them."""
        if self._weighs:
            raise ConfigError("methods.weights_not_read", method=method)

    @cached_property
    def _weighs(self) -> bool:
        return isinstance(self.exp.data, Pairs) and located(self.exp.data).has_weights

    def _given_weights(self) -> Output | None:
        """The weights that the data itself gives the noisy pairs; None where it gives none."""
        if not self._weighs:
            return None
        return self.plan.add(GIVEN, self.exp.data, self.label, pairs=self.noisy["noisy_pairs"])["given_weights"]

    def given_negatives(self) -> Outputs | None:
        """The negatives that the data itself gives, as candidates, and the ensemble's verdicts; None without any."""
        split, data = self.exp.audited, self.exp.data
        if not (data.has_negatives if split == "train" else data.calls_wrong(split)):
            return None
        pairs, given = self.noisy["noisy_pairs"], self.data["given_negatives"]
        joined = self.plan.add(JOIN_NEGATIVES, Params(), self.label, pairs=pairs, given_negatives=given)
        detector = next((found for found in self.exp.detectors.values() if isinstance(found, Ensemble)), Ensemble())
        scores = self.scores("with_negatives", detector, joined["noisy_pairs"])["pair_scores"]
        return self.plan.add(JUDGE_NEGATIVES, Params(), self.label, pairs=pairs, given_negatives=given, scores=scores)

    def competitors(self) -> Output | None:
        """Replacements by the first of the experiment's detectors that searches; None where none searches."""
        for name, detector in self.exp.detectors.items():
            if detector.searches:
                return self.scores(name, detector)["competitors"]
        return None

    def features(self) -> Output | None:
        """Features by the first of the experiment's detectors that tells more of pairs than a score."""
        for name, detector in self.exp.detectors.items():
            if detector.describes:
                return self.scores(name, detector)["pair_features"]
        return None

    def repaired(self) -> Outputs:
        """The noisy pairs with the surest wrong ones relabelled, and flags for what is left."""
        flags = self.flags()["noise_flags"]
        return self.plan.add(REPAIR, self.exp.repair, self.label, pairs=self.noisy["noisy_pairs"], flags=flags)
