"""Settings that a whole pipeline shares: groups of an experiment that are no single stage's."""

from typing import Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from noisyir.data.settings import JoinCorpusParams
from noisyir.eval.settings import ScoreReadingParams
from noisyir.mining.settings import PseudoLabelParams
from noisyir.models.settings import InitRankerParams, InitReaderParams
from noisyir.pipelines.method import Method
from noisyir.pipelines.reader_methods import CdsAverage, DsAll, ReaderMethod
from noisyir.readers.settings import ConfusingParams, Passages, ReadParams, SpansParams
from noisyir.settings import LearningRate, Params
from noisyir.training.settings import CcrParams, RerankParams, RoundParams, TrainReaderParams, WarmUpRankerParams


class RankerParams(Params):
    """The ranker of AR2 and RocketQA, and of re-ranking."""

    init: InitRankerParams = InitRankerParams()
    warm_up: WarmUpRankerParams = WarmUpRankerParams()
    rerank: RerankParams = RerankParams()


class ContinuedParams(Params):
    """Further rounds from the finished models, with optimisers and schedules begun anew (method `ar2_continued`)."""

    rounds: PositiveInt = Field(1, description="further rounds; their schedules span these")
    mine: dict[str, Any] = Field({}, description="what of `mine` differs in them")
    train: dict[str, Any] = Field({}, description="what of `ar2` differs in them: steps, rates, adv_lambda, ...")


class Ar2Params(RoundParams):
    """AR2 from its beginning to its end: where it starts, its rounds, and what they mine."""

    start_from: Literal["warm_up", "weights"] = Field(
        "warm_up", description="train both models first; or take model.weights and ranker.init.weights as they are"
    )
    mine: dict[NonNegativeInt, dict[str, Any]] = Field(
        {}, description="what of `mine` differs from a round on, by its number, from 0"
    )
    continued: ContinuedParams = ContinuedParams()


class AugmentParams(PseudoLabelParams):
    """RocketQA's data augmentation: training queries paired with what retriever and cross-encoder find for them."""

    queries: Literal["unlabelled", "all"] = Field(
        "unlabelled", description="those without a pair (data.unlabelled keeps them), or those with one, too"
    )

    def pairing(self) -> PseudoLabelParams:
        """The part that decides which candidates are paired."""
        return PseudoLabelParams(min_positive=self.min_positive, per_query=self.per_query)


class RocketqaParams(Params):
    """RocketQA (Qu et al., NAACL 2021): denoised hard negatives, and perhaps augmentation."""

    hard_negatives: PositiveInt = Field(1, description="mined negatives a query in each batch, after the first step")
    epochs: PositiveInt | None = Field(None, description="of each training after the first; null: train.epochs")
    ranker_rank_to: PositiveInt | None = Field(
        None, description="last rank at which the ranker's own negatives are drawn, uniformly; null: mine.rank_to"
    )
    augment: AugmentParams | None = Field(None, description="a third retriever, with pairs made; null: none")


class ReaderParams(Params):
    """Everything of an experiment that trains readers."""

    methods: tuple[ReaderMethod, ...] = Field(
        (DsAll(), CdsAverage()),
        min_length=1,
        description="trained side by side; the last one is on trial, unless `keep` names another",
    )
    ensemble: tuple[str, ...] = Field((), description="of the methods, those whose answers are also given as one")
    labels: Passages = Field("bm25", description="whose passages are labelled and trained on")
    retriever: Method | None = Field(
        None, description="dense: the method, as of `methods`, that trains the retriever; null: the untrained model"
    )
    passages: tuple[Passages, ...] = Field(
        ("bm25", "given"), min_length=1, description="what is read: retrieved passages, or the relevant ones"
    )
    spans: SpansParams = SpansParams()
    confusing: ConfusingParams = ConfusingParams()
    init: InitReaderParams = InitReaderParams()
    train: TrainReaderParams = TrainReaderParams()
    read: ReadParams = ReadParams()
    held_out_questions: PositiveInt | None = Field(
        None, description="questions of score.splits that are read, drawn at random; null: all"
    )
    score: ScoreReadingParams = ScoreReadingParams()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        known = tuple(method.kind for method in self.methods)
        for setting, names in (("methods", known), ("passages", self.passages), ("ensemble", self.ensemble)):
            if len(set(names)) < len(names):
                raise ValueError(f"reader.{setting}={list(names)} names one of them twice: leave one out")
        if strangers := [name for name in self.ensemble if name not in known]:
            raise ValueError(f"reader.ensemble: {strangers[0]!r} is not among reader.methods={list(known)}")
        return self

    @property
    def wants_dense(self) -> bool:
        """Whether a dense run is labelled or read."""
        return "dense" in (self.labels, *self.passages)


class RefreshParams(Params):
    """ANCE: rounds of mining with the model as it is, each followed by training on what it mined."""

    rounds: PositiveInt = Field(1, description="how often negatives are mined anew")
    epochs: PositiveInt = Field(1, description="passes over the training pairs after each mining")
    learning_rate: LearningRate | None = Field(None, description="in these epochs; null: train.learning_rate")
    hard_negatives: NonNegativeInt = Field(1, description="mined negatives a query in each batch")
    ccr: CcrParams = CcrParams()


class RefreshCorpusParams(Params):
    """How an index takes in new documents."""

    model: str = Field(description="an experiment's name, a model's key, or models:/NAME@ALIAS")
    data: JoinCorpusParams = JoinCorpusParams()
    rebuild: bool = Field(False, description="build the index anew, and train what is trained, from all vectors")
