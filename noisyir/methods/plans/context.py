"""The context of a method's steps: the plan, the data, the noisy pairs and the start model."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from noisyir.audits.stages.audit_negatives import JOIN_NEGATIVES, JUDGE_NEGATIVES
from noisyir.base.errors import ConfigError
from noisyir.base.settings import Params
from noisyir.data.stages.ingest import GIVEN
from noisyir.detection.detectors import Detector
from noisyir.detection.detectors.ensemble import Ensemble
from noisyir.detection.stages.detect import DETECT, REPAIR
from noisyir.detection.stages.score_pairs import SCORE_PAIRS
from noisyir.engine.remote.fetched import located
from noisyir.engine.stage import Output, Outputs, Stage
from noisyir.methods.plans.mining import MiningOutputs, TrainedJudge, mine, taught
from noisyir.methods.plans.searching import Part, pick
from noisyir.models.weights import compares_nothing_yet
from noisyir.retrieval.settings import Bm25IndexParams, KeepStatesParams
from noisyir.retrieval.stages.bm25 import BM25_INDEX
from noisyir.retrieval.stages.keep_states import KEEP_STATES
from noisyir.training.settings import TrainDprParams

if TYPE_CHECKING:
    from noisyir.methods.plans.experiment import Experiment

log = logging.getLogger(__name__)


@dataclass
class Context(Part):
    """One experiment's noisy pairs under one seed; it grows with the plan.

    Attributes:
        data: Ingest's outputs, with the collection after noise was put in.
        trial: Training queries held out to try methods on.
        training_seed: The seed of training; the plan's if None.
        rounds: Curves of rounds that continue a method's steps, as METHOD@NUMBER.
    """

    noisy: Outputs
    start: Output
    judged: dict[str, Outputs] = field(default_factory=dict)
    mines: dict[str, MiningOutputs] = field(default_factory=dict)
    trial: Output | None = None
    training_seed: int | None = None
    tried: Output | None = None
    lists: Output | None = None
    rounds: dict[str, Output] = field(default_factory=dict)

    def train(self, stage: Stage, params: Params, label: str, **inputs: Output | None) -> Outputs:
        """Train by a stage with DPR's inputs: the untrained model and its negatives, unless `inputs` override them."""
        given = pick(self.data, "queries", "corpus", "qrels") | {"model": self.start}
        states = self.kept_states(params)
        if states is not None:
            given["states"] = states
        weights = self._given_weights()
        if weights is not None:
            given["weights"] = weights
        if "negatives" not in inputs:
            inputs["negatives"] = self._mined_for(stage, params, label, inputs)
        if (wanted := getattr(params, "hard_negatives", 0)) and "negatives" in stage.reads and not inputs["negatives"]:
            raise ConfigError("training.nothing_mined", setting="train.hard_negatives", count=wanted)
        held = {} if self.trial is None else {"trial": self.trial}
        with self.plan.seeded(self.plan.seed if self.training_seed is None else self.training_seed):
            trained = self.plan.add(stage, params, self.name(label), **{**given, **inputs, **held})
        if "noise_flags" in trained:
            self.judged[label] = trained
        return trained

    def _mined_for(
        self, stage: Stage, params: Params, label: str, inputs: Mapping[str, Output | None]
    ) -> Output | None:
        """Negatives of the start model, or of the model of a first training by the same stage (`mine.model`)."""
        first = self.exp.mining_first()
        negatives = self.mined(self.start, exp=first)
        if first is self.exp:
            return negatives
        if negatives is None:
            params = params.model_copy(update={"hard_negatives": 0, "pool": "batch"})
        model = self.train(stage, params, f"{label}@1", **{**inputs, "negatives": negatives})["model"]
        return self.mined(model, f"{label}@2", exp=self.exp.mining({"model": "start"}))

    def kept_states(self, params: Params) -> Output | None:
        """The outputs of the start model's frozen layers, if they are kept; continued trainings share them."""
        if not isinstance(params, TrainDprParams) or not params.keep_states or params.freeze is None:
            return None
        layers = KeepStatesParams(layers=params.freeze)
        return self.plan.add(KEEP_STATES, layers, self.label, model=self.start, **self.texts)["lower_states"]

    def mined(
        self,
        model: Output,
        label: str = "",
        *,
        exp: "Experiment | None" = None,
        pairs: Output | None = None,
        trained: TrainedJudge | None = None,
    ) -> Output | None:
        """Hard negatives mined with a model; None if the experiment wants none.

        `exp` and `pairs` replace the context's own; `trained` is a judge in addition to `mine.judges`.
        """
        exp, pairs = exp or self.exp, pairs or self.noisy["noisy_pairs"]
        if exp.mine.per_query == 0:
            return None
        if exp.mine.model == "round_1":
            raise ConfigError("methods.no_first_round")
        by_model = exp.mine.by_model or exp.mine.needs_scores or "sieve" in exp.mine.judges
        if by_model and model == self.start and compares_nothing_yet(exp.model):
            log.warning("the model that mines, %s, was never trained to compare texts, and its negatives are nearly "
                        "random; mine.run=bm25 without filters needs no model", exp.model.weights)  # fmt: skip
        found = self.mines[label] = mine(self.within(label, exp), model, pairs, trained)
        return found.negatives

    def teacher_scores(self) -> Output:
        """The training queries' lists, scored by the experiment's teacher."""
        pairs = {"pairs": self.noisy["noisy_pairs"]} | ({} if self.trial is None else {"trial": self.trial})
        self.lists = taught(self, self.start, pairs)
        return self.lists

    def scores(self, name: str, detector: Detector, pairs: Output | None = None) -> Outputs:
        """One detector's scores of the pairs, the noisy ones if none are given."""
        index = None
        detector = detector.resolved(self.exp.model)
        if detector.lexical:
            params = Bm25IndexParams(engine="bm25s")
            lexical = self.plan.add(BM25_INDEX, params, self.name("for_pairs"), corpus=self.data["corpus"])
            index = lexical["lexical_index"]
        return self.plan.add(
            SCORE_PAIRS,
            detector,
            self.name(name),
            model=self.start,
            pairs=pairs or self.noisy["noisy_pairs"],
            lexical_index=index,
            negatives=self.mined(self.start, exp=self.exp.mining_first()) if detector.negatives_needed else None,
            **self.texts,
        )

    def flags(self) -> Outputs:
        """The verdicts of the experiment's detectors on the noisy pairs, and the noise rate."""
        scores = {name: self.scores(name, detector)["pair_scores"] for name, detector in self.exp.detectors.items()}
        flags = self.judged["detectors"] = self.plan.add(DETECT, self.exp.detect, self.label, scores=scores)
        return flags

    def refuse_weights(self, method: str) -> None:
        """Refuse data with weights, for a method that cannot read them.

        Raises:
            ConfigError: If the data gives its pairs weights.
        """
        if self._has_weights:
            raise ConfigError("methods.weights_not_read", method=method)

    @cached_property
    def _has_weights(self) -> bool:
        return located(self.exp.data).has_weights

    def _given_weights(self) -> Output | None:
        """The data's own weights of the noisy pairs, if any."""
        if not self._has_weights:
            return None
        return self.plan.add(GIVEN, self.exp.data, self.label, pairs=self.noisy["noisy_pairs"])["given_weights"]

    def given_negatives(self) -> Outputs | None:
        """The data's own negatives as candidates, with the ensemble's verdicts, if any."""
        split, data = self.exp.audited, self.exp.data
        if not (data.has_negatives if split == "train" else data.calls_wrong(split)):
            return None
        pairs, given = self.noisy["noisy_pairs"], self.data["given_negatives"]
        joined = self.plan.add(JOIN_NEGATIVES, Params(), self.label, pairs=pairs, given_negatives=given)
        detector = next((found for found in self.exp.detectors.values() if isinstance(found, Ensemble)), Ensemble())
        scores = self.scores("with_negatives", detector, joined["noisy_pairs"])["pair_scores"]
        return self.plan.add(JUDGE_NEGATIVES, Params(), self.label, pairs=pairs, given_negatives=given, scores=scores)

    def competitors(self) -> Output | None:
        """Replacement documents found by the first detector that searches."""
        found = (item for item in self.exp.detectors.items() if item[1].searches)
        return next((self.scores(*item)["competitors"] for item in found), None)

    def features(self) -> Output | None:
        """Features of pairs from the first detector that writes them."""
        found = (item for item in self.exp.detectors.items() if item[1].describes)
        return next((self.scores(*item)["pair_features"] for item in found), None)

    def repaired(self) -> Outputs:
        """The noisy pairs with the surest wrong ones relabelled, and flags for the rest."""
        flags = self.flags()["noise_flags"]
        return self.plan.add(REPAIR, self.exp.repair, self.label, pairs=self.noisy["noisy_pairs"], flags=flags)
