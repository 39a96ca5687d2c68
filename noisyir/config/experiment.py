"""An experiment, a bench of them, and the machine they run on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from noisyir.config.ar2 import Ar2Params, RankerParams, RoundParams, TrainAr2Params
from noisyir.config.base import Params
from noisyir.config.data import CorruptParams, ExpectedParams, HideParams, IngestParams
from noisyir.config.mining import JudgesParams, MineParams, RefreshParams, ScoreLossGroupsParams, ScoreNegativesParams
from noisyir.config.noise import AuditParams, DetectParams, RepairParams, ScorePairsParams
from noisyir.config.reading import ReaderParams
from noisyir.config.results import CompareParams, NoiseTableParams, PublishedParams, ReportParams, ScoreParams
from noisyir.config.retrieval import Bm25IndexParams, Bm25Params, EncodeParams, IndexParams, SearchParams
from noisyir.config.rocketqa import RocketqaParams
from noisyir.config.training import (
    CoTeachingParams,
    InitModelParams,
    NpcParams,
    TrainCoTeachingParams,
    TrainNpcParams,
    WarmUpParams,
)


class Experiment(Params):
    """One YAML file: only what differs from the defaults."""

    name: str = Field(description="names the run in reports and in MLflow")
    description: str = Field("", description="one line on what the experiment shows")
    task: Literal["retriever", "reader"] = Field("retriever", description="what is trained")
    seed: int = Field(42, description="of every random choice; enters the keys of stages that make any")
    data: IngestParams = IngestParams()
    expected: ExpectedParams = ExpectedParams()
    published: tuple[PublishedParams, ...] = Field((), description="papers' numbers, shown beside the measured ones")
    hide: HideParams = HideParams()
    noise: CorruptParams = CorruptParams()
    bm25_index: Bm25IndexParams = Bm25IndexParams()
    bm25: Bm25Params = Bm25Params()
    mine: MineParams = MineParams()
    judges: JudgesParams = JudgesParams()
    refresh: RefreshParams = RefreshParams()
    score_negatives: ScoreNegativesParams = ScoreNegativesParams()
    model: InitModelParams = InitModelParams()
    train: WarmUpParams = WarmUpParams()
    methods: tuple[str, ...] = Field(
        ("dpr",), min_length=1, description="trained side by side; the last one is on trial, and kept"
    )
    detectors: dict[str, ScorePairsParams] = Field(
        {
            "bm25": ScorePairsParams(detector="bm25_margin"),
            "cross_fit": ScorePairsParams(detector="margin", folds=2),
        },
        description="what pairs are judged by, for methods and audits that want verdicts beforehand",
    )
    detect: DetectParams = DetectParams()
    repair: RepairParams = RepairParams()
    npc: NpcParams = NpcParams()
    co_teaching: CoTeachingParams = CoTeachingParams()
    ranker: RankerParams = RankerParams()
    ar2: Ar2Params = Ar2Params()
    rocketqa: RocketqaParams = RocketqaParams()
    reader: ReaderParams = ReaderParams()
    audit: AuditParams | None = Field(None, description="write an audit of the training pairs; null: none")
    encode: EncodeParams = EncodeParams()
    index: IndexParams = IndexParams()
    search: SearchParams = SearchParams()
    score: ScoreParams = ScoreParams()
    compare: CompareParams = CompareParams()
    report: ReportParams = ReportParams()

    def correction(self, **npc: object) -> TrainNpcParams:
        """The settings of training by noisy pair correction, with some of `npc` changed."""
        return TrainNpcParams(**dict(self.train), npc=self.npc.model_copy(update=npc))

    def teaching(self) -> TrainCoTeachingParams:
        """The settings of training by co-teaching."""
        return TrainCoTeachingParams(**dict(self.train), co_teaching=self.co_teaching)

    def adversarial(self, **changes: Any) -> TrainAr2Params:
        """The settings of a round of AR2, with some changed.  ValueError for misspelt ones."""
        shared = {name: getattr(self.ar2, name) for name in RoundParams.model_fields}
        scale = self.train.scale if self.ar2.scale is None else self.ar2.scale
        return TrainAr2Params(**{**shared, "scale": scale, **changes})

    def adversarial_further(self) -> TrainAr2Params:
        """The settings of a round beyond the finished models."""
        return self.adversarial(**{**self.ar2.continued.train, "rounds": self.ar2.continued.rounds})

    def mining_in(self, number: int) -> Self:
        """The experiment as it mines in a round of AR2, by all that changes up to it."""
        changes: dict[str, Any] = {}
        for earlier in sorted(self.ar2.mine):
            changes = _merged(changes, self.ar2.mine[earlier]) if earlier <= number else changes
        return self.mining(changes)

    def mining(self, changes: dict[str, Any]) -> Self:
        """The experiment with some of `mine` changed, as its own settings were given.  ValueError for misspelt ones."""
        mine = MineParams(**_merged(self.mine.model_dump(exclude_unset=True), changes))
        return self.model_copy(update={"mine": mine})

    @model_validator(mode="after")
    def _rounds_mine(self) -> Self:
        if beyond := [number for number in self.ar2.mine if number >= self.ar2.rounds]:
            raise ValueError(
                f"ar2.mine.{beyond[0]}: rounds are numbered from 0, so that ar2.rounds={self.ar2.rounds} ends with "
                f"{self.ar2.rounds - 1}; ar2.continued.mine is for what comes after"
            )
        if "rounds" in self.ar2.continued.train:
            raise ValueError("ar2.continued.train.rounds: set ar2.continued.rounds")
        made: dict[str, Callable[[], Params]] = {
            f"ar2.mine.{number}": partial(self.mining_in, number) for number in self.ar2.mine
        }
        made["ar2.continued.mine"] = partial(self.mining, self.ar2.continued.mine)
        made["ar2.continued.train"] = self.adversarial_further
        for name, make in made.items():
            try:
                make()
            except ValidationError as error:
                first = error.errors()[0]
                raise ValueError(f"{'.'.join((name, *map(str, first['loc'])))}: {first['msg']}") from error
        return self


class Suite(Params):
    """A bench: one experiment under several kinds and rates of noise, methods and seeds."""

    name: str = Field(description="names the bench's files")
    description: str = Field("", description="one line on what the bench shows")
    experiment: Experiment
    noise: tuple[CorruptParams, ...] = Field((), description="wrong pairs put in")
    hide: tuple[HideParams, ...] = Field((), description="relevant documents hidden: false negatives")
    methods: tuple[str, ...] = Field(("dpr", "oracle", "npc"), description="trained on each; none: mining alone")
    variants: dict[str, dict[str, Any]] = Field(
        {"": {}}, min_length=1, description="what of the experiment differs, by name: each method is run with each"
    )
    seeds: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1, description="of the noise and of training")
    detect: bool = Field(True, description="run the experiment's detectors, for their quality and the noise rate")
    loss_groups: ScoreLossGroupsParams | None = Field(
        None, description="the losses of false, hard and in-batch negatives under each model; null: not computed"
    )
    table: NoiseTableParams = NoiseTableParams()

    @model_validator(mode="after")
    def _readers_have_no_noise(self) -> Self:
        if self.experiment.task == "reader" and (self.noise or self.hide):
            raise ValueError("noise, hide: a suite of readers has none: distant labels are wrong by themselves")
        return self

    @model_validator(mode="after")
    def _noises_differ(self) -> Self:
        kinds = [(mechanism, rate) for mechanism, rate, _ in self.conditions]
        if not kinds:
            raise ValueError("noise, hide: a suite needs one of either at least; rate 0 leaves the pairs as they are")
        if not self.methods and not self.hide:
            raise ValueError("methods: only a suite that hides documents can do without any")
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            mechanism, rate = twice[0]
            raise ValueError(
                f"noise: {mechanism} at rate {rate:g} is there more than once, and mechanism and rate are all that the "
                "table tells kinds of noise apart by: make a suite of each"
            )
        return self

    @model_validator(mode="after")
    def _variants_are_experiments(self) -> Self:
        for name in self.variants:
            self.variant(name)
        return self

    @property
    def conditions(self) -> tuple[tuple[str, float, dict[str, Params]], ...]:
        """(mechanism, rate, what of the experiment it sets) of each kind of noise, then of each kind of hiding.

        Of readers: the passages that are labelled, as they are.
        """
        if self.experiment.task == "reader":
            return ((self.experiment.reader.labels, 0.0, {}),)
        given: list[tuple[str, CorruptParams | HideParams]] = [("noise", noise) for noise in self.noise]
        given += [("hide", hide) for hide in self.hide]
        return tuple((params.mechanism, params.rate, {name: params}) for name, params in given)

    def variant(self, name: str) -> Experiment:
        """The experiment with what this variant changes."""
        try:
            return Experiment(**_merged(self.experiment.model_dump(exclude_unset=True), self.variants[name]))
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise ValueError(f"variants.{name}: {where}: {error.errors()[0]['msg']}") from error

    def arm(self, method: str, variant: str) -> str:
        """What the table calls a method with a variant: by what there is more than one of."""
        return method if not variant else variant if len(self.methods) <= 1 else f"{method}+{variant}"

    @property
    def arms(self) -> tuple[str, ...]:
        """All that the table compares."""
        return tuple(self.arm(method, variant) for variant in self.variants for method in self.methods or ("",))


def _merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings with some changed; groups of settings are merged, all else is replaced."""
    merged = dict(settings)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


class FanOut(Params):
    """Who encodes the shards of a corpus, under `--engine prefect` and in deployments."""

    engine: Literal["none", "dask", "ray"] = Field("none", description="none: the process that runs the stage")
    workers: PositiveInt = Field(2, description="of a cluster started here for the run; with an address: tasks at once")
    address: str | None = Field(None, description="of a cluster that is there; null: one is started on this machine")


class Runtime(Params):
    """The machine, not the method: nothing here changes results but by rounding, so nothing here enters a key."""

    device: str = Field("auto", description="cpu, cuda, cuda:1, ...; auto takes a GPU when there is one")
    threads: PositiveInt | None = Field(None, description="CPU threads; null: all")
    batch_tokens: PositiveInt | Literal["auto"] = Field(
        32768, description="tokens in one inference batch, padding included; auto: what fits into a GPU, else 32768"
    )
    compile: bool = Field(False, description="have torch compile transformers for training; needs a compiler")
    checkpoint_seconds: PositiveFloat = Field(60.0, description="least time between two checkpoints of training")
    processes: PositiveInt = Field(1, description="that share each batch of training; of GPUs each takes its own")
    steps_at_once: PositiveInt = Field(1, description="steps side by side, in processes that share the threads")
    fan_out: FanOut = FanOut()
    peer_seconds: PositiveFloat = Field(600.0, description="longest that training processes wait for one another")
    java_heap: str = Field("4g", pattern="^[0-9]+[kmgKMG]$", description="largest heap of the JVM that Lucene runs in")

    @property
    def cpu_threads(self) -> int:
        """How many CPU threads to use: as many as were asked for, else as there are cores."""
        import os

        return self.threads or os.cpu_count() or 1


def default_home() -> Path:
    """`$NOISYIR_HOME`, or `.noisyir` in the current folder."""
    import os

    return Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()
