"""Groups of an experiment that belong to no single stage."""

from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from noisyir.base.settings import LearningRate, Params
from noisyir.data.settings import JoinCorpusParams
from noisyir.mining.settings import PseudoLabelParams
from noisyir.models.backends import Backend
from noisyir.models.settings import InitModelParams, InitRankerParams
from noisyir.retrieval.settings import EncodeParams, RerankParams
from noisyir.training.settings import CcrParams, RoundParams, WarmUpRankerParams


class AsIsParams(InitModelParams):
    """A model that is used as it is, and how its vectors are computed."""

    backbone: Literal["static", "transformer"] = Field("transformer", description="token-embedding bag, or an encoder")
    backend: Backend = Field("torch", description="as encode.backend, for this model")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="as encode.precision, for this model")

    def model(self) -> InitModelParams:
        """The settings of the stage that builds it."""
        return InitModelParams(**{name: getattr(self, name) for name in InitModelParams.model_fields})

    def encoding(self, encode: EncodeParams) -> EncodeParams:
        """The experiment's encoding by this model's backend; its vectors are not cut."""
        own = {"backend": self.backend, "precision": self.precision, "dimensions": None}
        return encode.model_copy(update=own)


class RankerParams(Params):
    """The ranker of AR2 and RocketQA, and of re-ranking."""

    init: InitRankerParams = InitRankerParams()
    warm_up: WarmUpRankerParams = WarmUpRankerParams()
    rerank: RerankParams = RerankParams()


class ContinuedParams(Params):
    """Further rounds from the finished models, with new optimisers and schedules (method `ar2_continued`)."""

    rounds: PositiveInt = Field(1, description="further rounds; their schedules span these")
    mine: dict[str, Any] = Field({}, description="what of `mine` differs in them")
    train: dict[str, Any] = Field({}, description="what of `ar2` differs in them: steps, rates, adv_lambda, ...")


class Ar2Params(RoundParams):
    """AR2: its start, its rounds and their mining."""

    start_from: Literal["warm_up", "weights"] = Field(
        "warm_up", description="train both models first; or take model.weights and ranker.init.weights as they are"
    )
    mine: dict[NonNegativeInt, dict[str, Any]] = Field(
        {}, description="what of `mine` differs from a round on, by its number, from 0"
    )
    continued: ContinuedParams = ContinuedParams()


class AugmentParams(PseudoLabelParams):
    """RocketQA's data augmentation: training queries paired with documents that retriever and ranker find."""

    queries: Literal["unlabelled", "all"] = Field(
        "unlabelled", description="those without a pair (data.unlabelled keeps them), or those with one, too"
    )

    def pairing(self) -> PseudoLabelParams:
        """The settings of the stage that pairs candidates."""
        return PseudoLabelParams(min_positive=self.min_positive, per_query=self.per_query)


class RocketqaParams(Params):
    """RocketQA (Qu et al., NAACL 2021)."""

    hard_negatives: PositiveInt = Field(1, description="mined negatives a query in each batch, after the first step")
    epochs: PositiveInt | None = Field(None, description="of each training after the first; null: train.epochs")
    ranker_rank_to: PositiveInt | None = Field(
        None, description="last rank at which the ranker's own negatives are drawn, uniformly; null: mine.rank_to"
    )
    augment: AugmentParams | None = Field(None, description="a third retriever, with pairs made; null: none")


class RefreshParams(Params):
    """ANCE: rounds of mining with the current model, each followed by training."""

    rounds: PositiveInt = Field(1, description="how often negatives are mined again")
    epochs: PositiveInt = Field(1, description="passes over the training pairs after each mining")
    learning_rate: LearningRate | None = Field(None, description="in these epochs; null: train.learning_rate")
    hard_negatives: NonNegativeInt = Field(1, description="mined negatives a query in each batch")
    ccr: CcrParams = CcrParams()


class RefreshCorpusParams(Params):
    """How an index takes in new documents."""

    model: str = Field(description="an experiment's name, a model's key, or models:/NAME@ALIAS")
    data: JoinCorpusParams = JoinCorpusParams()
    rebuild: bool = Field(False, description="rebuild the index from all vectors, training included")
