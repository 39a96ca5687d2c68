"""An experiment: every setting of a pipeline."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from noisyir.audits.settings import AuditParams
from noisyir.base.errors import ConfigError
from noisyir.base.faults import faults
from noisyir.base.settings import AuditedSplit, Params, as_group, merged
from noisyir.corruption.hiding import Hiding, Positives
from noisyir.corruption.kinds import Corruption
from noisyir.corruption.kinds.other_documents import AnyDocument
from noisyir.data.formats import Format
from noisyir.data.formats.pydocs import Pydocs
from noisyir.data.settings import ChunkParams
from noisyir.detection.detectors import Detector
from noisyir.detection.detectors.ensemble import Ensemble
from noisyir.detection.settings import DetectParams, NpcDetectParams, NpcParams, RepairParams, TrainNpcParams
from noisyir.evaluation.pages.settings import Published, PublishedParams, ReportParams
from noisyir.evaluation.settings import CompareParams, ScoreLossGroupsParams, ScoreNegativesParams, ScoreParams
from noisyir.methods.plans.method import Method, Preparations
from noisyir.methods.plans.settings import Ar2Params, AsIsParams, RankerParams, RefreshParams, RocketqaParams
from noisyir.methods.plans.task import RetrieverTask, Task
from noisyir.mining.judges import Judge, Judges, SieveJudge
from noisyir.mining.settings import EvidenceParams, MineParams
from noisyir.mining.teachers import HybridTeacher, ListParams, PoolParams, Teacher
from noisyir.models.settings import InitModelParams
from noisyir.retrieval.settings import (
    Bm25IndexParams,
    Bm25Params,
    EncodeParams,
    HybridParams,
    IndexParams,
    SearchParams,
)
from noisyir.training.settings import DistillParams, RoundParams, TrainAr2Params, TrainDistillParams, TrainDprParams

# The settings that `GROUP: null` means.
_OFF = {"chunk": {"words": None}, "hide": {"rate": 0.0}, "noise": {"rate": 0.0}, "mine": {"per_query": 0}}
_LONGEST_NAME = 150  # bytes: file systems take 255, and times are added


def _file_name(name: str) -> str:
    """Refuse with ValueError a name that cannot be part of a file's."""
    if not name.strip(". ") or any(sign in "/\\:" or not sign.isprintable() for sign in name):
        raise ValueError(f"name: {name!r} cannot be a part of a file's name: write letters, digits and dashes")
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"name: {name[:20]!r}... cannot be a part of a file's name: keep it to {_LONGEST_NAME} bytes")
    return name


class Experiment(Params):
    """Every setting of a pipeline; its YAML file holds the settings that differ from the defaults."""

    name: Annotated[str, AfterValidator(_file_name)] = Field(description="names the run in reports and in MLflow")
    description: str = Field("", description="one line on the experiment's purpose")
    task: Task = Field(
        RetrieverTask(), description="the kind of model that is trained; its settings may be in a group of its name"
    )
    seed: int = Field(42, description="of every random choice; enters the keys of stages that make any")
    data: Format = Pydocs()
    prepare: Preparations = Field({}, description="steps of other packages on the data, by kind; null: leave one out")
    chunk: ChunkParams = ChunkParams()
    published: Published = Field((), description="papers' numbers, shown with the measured ones")
    hide: Hiding = Positives()
    noise: Corruption = AnyDocument()
    bm25_index: Bm25IndexParams = Bm25IndexParams()
    bm25: Bm25Params = Bm25Params()
    mine: MineParams = MineParams()
    judges: Judges = Field({}, description="settings of the judges that `mine.judges` names, by kind")
    teacher: Teacher = Field(HybridTeacher(), description="who scores the lists that distillation learns from")
    pool: PoolParams = PoolParams()
    lists: ListParams = ListParams()
    refresh: RefreshParams = RefreshParams()
    evidence: EvidenceParams = EvidenceParams()
    score_negatives: ScoreNegativesParams = ScoreNegativesParams()
    loss_groups: ScoreLossGroupsParams | None = Field(
        None, description="the losses of false, hard and in-batch negatives under each model; null: not computed"
    )
    model: InitModelParams = InitModelParams()
    as_is: dict[str, AsIsParams] = Field(
        {}, description="models, by a name of your own, that are compared without training: {minilm: {}}"
    )
    train: TrainDprParams = TrainDprParams()
    methods: tuple[Method, ...] = Field(
        (Method.parse("dpr"),),
        min_length=1,
        description="trained side by side; the last one is on trial, unless `keep` names another",
    )
    chosen: dict[str, str] = Field(
        {}, description="settings that were left out and are chosen by rule, in words; noisyir writes it"
    )
    keep: str | None = Field(
        None, description="the method with the model that is kept and registered; null: the last one"
    )
    detectors: dict[str, Detector] = Field(
        {"ensemble": Ensemble()},
        description="what pairs are judged by, for methods and audits that want verdicts beforehand",
    )
    detect: DetectParams = DetectParams()
    repair: RepairParams = RepairParams()
    npc: NpcParams = NpcParams()
    npc_detect: NpcDetectParams = NpcDetectParams()
    distill: DistillParams = DistillParams()
    ranker: RankerParams = RankerParams()
    ar2: Ar2Params = Ar2Params()
    rocketqa: RocketqaParams = RocketqaParams()
    audit: AuditParams | None = Field(None, description="write an audit of the training pairs; null: none")
    encode: EncodeParams = EncodeParams()
    index: IndexParams = IndexParams()
    search: SearchParams = SearchParams()
    hybrid: HybridParams | None = Field(HybridParams(), description="BM25 with each model's vectors; null: none")
    score: ScoreParams = ScoreParams()
    compare: CompareParams = CompareParams()
    report: ReportParams = ReportParams()
    register_if: Literal["better", "always"] = Field(
        "better", description="retrievers registered: those better than what needs no training, or all"
    )

    @property
    def lexical_search(self) -> Bm25Params:
        """BM25's settings, by which bm25s rounds lengths unless they say otherwise."""
        rounds = self.bm25_index.engine == "bm25s" and self.bm25.lengths is None
        return self.bm25.model_copy(update={"lengths": "rounded"}) if rounds else self.bm25

    def judge(self, kind: str) -> Judge:
        """The judge of this kind, with the experiment's settings."""
        found = self.judges.get(kind) or Judge.parse(kind)
        unset = isinstance(found, SieveJudge) and "pool_size" not in found.model_fields_set
        if unset and "given" in self.mine.rankings:
            return found.model_copy(update={"pool_size": None})  # none of the data's own is left out unjudged
        return found

    def correction(self, **npc: object) -> TrainNpcParams:
        """Settings of training with noisy pair correction; `npc` overrides."""
        return TrainNpcParams(**dict(self.train), npc=self.npc.model_copy(update=npc), detection=self.npc_detect)

    def distilling(self, contrastive: float) -> TrainDistillParams:
        """The settings of distillation by a method with this weight of the contrastive loss.

        What is set in `distill` goes before them.  ConfigError where that has no effect in this method.
        """
        given = {
            name: value for name, value in self.distill.model_dump(exclude_unset=True).items() if value is not None
        }
        try:
            changed = DistillParams(**{"contrastive": contrastive, **given})
        except ValidationError as error:
            raise ConfigError(faults(error, DistillParams, "distill")[0]) from error
        return TrainDistillParams(**{**dict(self.train), "hard_negatives": self.lists.size - 1}, distill=changed)

    def adversarial(self, **changes: Any) -> TrainAr2Params:
        """Settings of a round of AR2; `changes` override, and ValueError refuses misspelt ones."""
        shared = {name: getattr(self.ar2, name) for name in RoundParams.model_fields}
        scale = self.train.scale if self.ar2.scale is None else self.ar2.scale
        return TrainAr2Params(**{**shared, "scale": scale, **changes})

    def adversarial_further(self) -> TrainAr2Params:
        """Settings of a round of `ar2_continued`."""
        return self.adversarial(**{**self.ar2.continued.train, "rounds": self.ar2.continued.rounds})

    def mining_in(self, number: int) -> Self:
        """The experiment with `ar2.mine` applied up to this round."""
        changes: dict[str, Any] = {}
        for earlier in sorted(self.ar2.mine):
            changes = merged(changes, self.ar2.mine[earlier]) if earlier <= number else changes
        return self.mining(changes)

    def mining(self, changes: dict[str, Any]) -> Self:
        """The experiment with some of `mine` changed; ValueError refuses misspelt ones."""
        mine = MineParams(**merged(self.mine.model_dump(exclude_unset=True), changes))
        return self.model_copy(update={"mine": mine})

    def mining_first(self) -> Self:
        """The experiment with `mine` as in the first of two trainings (`mine.model`); itself if there is one alone."""
        return self if self.mine.model == "start" else self.mining({**self.mine.round_1, "model": "start"})

    @property
    def claims(self) -> tuple[PublishedParams, ...]:
        """The papers' numbers at this rate of noise."""
        return tuple(row for row in self.published if row.noise_rate in (None, self.noise.rate))

    @property
    def kept(self) -> str:
        """The method that is on trial."""
        return self.keep or self._trained[-1]

    @property
    def audited(self) -> AuditedSplit:
        """The split that an audit judges."""
        return self.audit.split if self.audit else "train"

    @property
    def _trained(self) -> list[str]:
        return list(self.task.trained) or [method.kind for method in self.methods]

    @model_validator(mode="before")
    @classmethod
    def _settings_of_the_task(cls, values: Any) -> Any:
        """Read the task's settings from a group of its name, and drop another task's group, as old records have it."""
        if not isinstance(values, dict) or (task := as_group(values.get("task", RetrieverTask().kind))) is None:
            return values
        groups = {name: values[name] for name in Task.variants() if isinstance(values.get(name), dict)}
        rest = {name: value for name, value in values.items() if name not in groups}
        if task.get("kind") in groups:
            if twice := sorted(task.keys() & groups[kind := task["kind"]].keys() - {"kind"}):
                raise ValueError(f"task.{twice[0]} and {kind}.{twice[0]} are both given: write it under {kind} alone")
            return {**rest, "task": merged(task, groups[kind])}
        for kind, group in groups.items():
            try:
                Task.parse({"kind": kind, **group})
            except ValidationError as error:
                raise ValueError(faults(error, Task)[0]) from error
        return rest

    @model_validator(mode="before")
    @classmethod
    def _null_switches_off(cls, values: Any) -> Any:
        """Let `hide: null` and the like leave out the step."""
        off = {name: value for name, value in _OFF.items() if isinstance(values, dict) and values.get(name, 0) is None}
        return {**values, **off} if off else values

    @model_validator(mode="after")
    def _methods_differ(self) -> Self:
        if len(set(names := self._trained)) < len(names):
            raise ValueError(f"methods={names} names one of them twice: leave one out")
        if self.kept not in names:
            raise ValueError(f"keep: {self.kept!r} is not among the methods: {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _systems_differ(self) -> Self:
        for name in self.as_is:
            if not re.fullmatch(r"[\w.-]+", name):
                raise ValueError(f"as_is: {name!r} is not a name: write letters, digits, dashes, dots and underscores")
        return self

    @model_validator(mode="after")
    def _scored_queries_are_searched(self) -> Self:
        for name, searched in (("encode.splits", self.encode.splits), ("bm25.splits", self.bm25.splits)):
            if lacking := [split for split in self.score.splits if split not in searched]:
                raise ValueError(
                    f"score.splits: {name}={list(searched)} leaves out {lacking[0]!r}, so its queries would score 0: "
                    f"set {name}=[{','.join((*searched, *lacking))}]"
                )
        return self

    @model_validator(mode="after")
    def _passages_are_of_documents(self) -> Self:
        if self.chunk.words is None:
            return self
        if not self.task.reads_passages:
            raise ValueError(f"chunk.words: a {self.task.kind} cuts its texts into windows itself: leave it out")
        if self.hide.rate and self.hide.adds_documents:
            raise ValueError(f"chunk.words: hide.kind={self.hide.kind} adds whole documents: leave one of the two out")
        if self.noise.rate and self.noise.changes_corpus:
            raise ValueError(f"chunk.words: noise.kind={self.noise.kind} changes whole documents: leave one of the two")
        return self

    @model_validator(mode="after")
    def _rounds_mine(self) -> Self:
        if beyond := [number for number in self.ar2.mine if number >= self.ar2.rounds]:
            raise ValueError(
                f"ar2.mine.{beyond[0]}: rounds are numbered from 0, and ar2.rounds={self.ar2.rounds} ends with "
                f"{self.ar2.rounds - 1}; ar2.continued.mine is for what comes after"
            )
        if "rounds" in self.ar2.continued.train:
            raise ValueError("ar2.continued.train.rounds: set ar2.continued.rounds")
        made: dict[str, Callable[[], Params]] = {
            f"ar2.mine.{number}": partial(self.mining_in, number) for number in self.ar2.mine
        }
        made["mine.round_1"] = self.mining_first
        made["ar2.continued.mine"] = partial(self.mining, self.ar2.continued.mine)
        made["ar2.continued.train"] = self.adversarial_further
        for name, make in made.items():
            try:
                make()
            except ValidationError as error:
                model = TrainAr2Params if name.endswith("train") else MineParams
                raise ValueError(faults(error, model, name)[0]) from error
        return self


def recorded_experiment(settings: Mapping[str, Any]) -> Experiment | None:
    """The experiment of a run's record; None if an older version recorded settings that are gone."""
    try:
        return Experiment.model_validate(settings)
    except ValidationError:
        return None
