"""Single-measure detectors: by a trained model, by rank among other documents, or by BM25."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.base.errors import ConfigError
from noisyir.base.settings import Fraction, LearningRate
from noisyir.detection.combine import Scores
from noisyir.detection.detectors import Detector, DetectorOutput, PairsToScore
from noisyir.training.batches import Rows

if TYPE_CHECKING:
    from noisyir.detection.by_model import Scorer
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.in_batch import Statistic
    from noisyir.detection.synthetic import References


_KEPT = 5  # competitors found for a pair


class CrossFitted(Detector):
    """Base of bi-encoder detectors: uses the given model, or models that each score the fold held out of training."""

    folds: NonNegativeInt = Field(
        0, description="models trained, each without one fold of the pairs, which it then scores; 0: the given model"
    )
    epochs: PositiveInt = Field(2, description="folds: passes over the pairs of the other folds")
    batch_size: PositiveInt = Field(512, description="pairs that are each other's negatives: their number + 1")
    learning_rate: LearningRate = Field(3e-3, description="folds: the peak of training")
    scale: PositiveFloat = Field(20.0, description="multiplies similarities before the softmax")

    @property
    def trainings(self) -> int:
        """One model per fold."""
        return self.folds

    @property
    def epochs_trained(self) -> int:
        """Epochs of each fold's model."""
        return self.epochs if self.folds else 0

    def untrained(self) -> Self:
        """Return a copy that uses the given model."""
        return self.model_copy(update={"folds": 0})

    def scorers(self, given: PairsToScore) -> "Iterator[Scorer]":
        """Yield the given model for all pairs, or one model for each fold.

        Raises:
            ConfigError: If there is only one fold.
        """
        from noisyir.detection.by_model import Scorer, cross_fitted
        from noisyir.training.settings import TrainDprParams

        if self.folds == 0:
            return iter([Scorer(given.encoder(), np.arange(len(given.pairs)))])
        if self.folds == 1:
            raise ConfigError("detection.score_pairs_folds_leaves")
        training = TrainDprParams(
            epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, scale=self.scale
        )
        return cross_fitted(given.encoder(), given.tokenised(), self.folds, training, given.training)


class InBatchDetector(CrossFitted):
    """Base of detectors that compare a pair with the other pairs of a batch."""

    draws: ClassVar[int] = 1

    shuffles: PositiveInt = Field(2, description="orders of the pairs that the loss is averaged over")
    hard_negatives: NonNegativeInt = Field(0, description="with mined negatives; an ablation, the paper uses none")

    @property
    def negatives_needed(self) -> int:
        """Mined negatives of each batch."""
        return self.hard_negatives

    def statistic(self) -> "Statistic":
        """Statistic of each row of a batch's similarities."""
        raise NotImplementedError

    def score(self, given: PairsToScore) -> Scores:
        """Average the statistic over the shuffles."""
        from noisyir.detection.in_batch import InBatch, score_in_batch

        how = InBatch(self.batch_size, self.shuffles, self.scale, self.statistic(), self.hard_negatives)
        stand_ins = given.wrong.tried(given.pairs.passage).T
        found = np.zeros((1 + len(stand_ins), len(given.pairs)), np.float32)
        for number, scorer in enumerate(self.scorers(given)):
            chosen, rng = scorer.chosen, given.rng("shuffles", number)
            found[:, chosen] = score_in_batch(
                scorer.encoder, given.tokenised(), chosen, how, rng, [*stand_ins[:, chosen]]
            )
        return Scores(found[0], given.wrong.by_null(found[1:].T))


class DenseSearch(CrossFitted):
    """Base of detectors that search the whole collection with the model."""

    searches: ClassVar[bool] = True
    draws: ClassVar[int] = 19

    depth: PositiveInt = Field(100, description="documents searched for a query: how deep a rank is known")

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Compute the statistic from a pair's own similarity and its competitors' similarities."""
        raise NotImplementedError

    def score(self, given: PairsToScore) -> DetectorOutput:
        """Search for every pair's query."""
        from noisyir.detection.collection import EncodedCollection
        from noisyir.detection.competitors import dense_competitors, merged

        def collection(scorer: "Scorer") -> EncodedCollection:
            if scorer.encoder is given.encoder():
                return given.collection()
            return EncodedCollection(
                scorer.encoder, given.tokenised(), given.documents.same, given.pairs.query[scorer.chosen]
            )

        def searched(scorer: "Scorer") -> "tuple[Rows, Competitors]":
            chosen = scorer.chosen
            wrong = given.wrong.of(chosen)
            return chosen, dense_competitors(
                collection(scorer), given.pairs, chosen, keep=_KEPT, depth=self.depth, wrong=wrong
            )

        found = merged([*map(searched, self.scorers(given))])  # frees each model before the next is trained
        return DetectorOutput(self.scores_of(found, given.wrong), found)


class Similarity(DenseSearch, kind="similarity"):
    """Minus the similarity of query and document."""

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Negate the similarities."""
        return Scores(-found.own, wrong.by_null(-found.made_up))


class Margin(DenseSearch, kind="margin"):
    """The best other document's similarity minus the pair's own."""

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Return the margins."""
        return found.margins(wrong)


class PairNll(InBatchDetector, kind="pair_nll"):
    """The pair's negative log-likelihood among the documents of a batch, in nats."""

    def statistic(self) -> "Statistic":
        """The negative log-likelihood."""
        from noisyir.training.losses.dpr import pair_nll

        return pair_nll


class Rank(DenseSearch, kind="rank"):
    """Natural logarithm of the document's rank; synthetic documents are assumed to rank below the search depth."""

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Return the log ranks."""
        beyond = np.full(found.made_up.shape, np.log(found.depth + 1))
        return Scores(found.log_rank(), wrong.by_null(beyond))


class InBatchRank(InBatchDetector, kind="in_batch_rank"):
    """Natural logarithm of the document's rank within a batch: the ranking view of confident learning."""

    def statistic(self) -> "Statistic":
        """The log rank."""
        from noisyir.detection.in_batch import log_rank

        return log_rank


class LexicalSearch(Detector):
    """Base of detectors that search the whole collection with BM25."""

    searches: ClassVar[bool] = True
    lexical: ClassVar[bool] = True
    draws: ClassVar[int] = 19

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Compute the statistic from a pair's own score and its competitors' scores."""
        raise NotImplementedError

    def score(self, given: PairsToScore) -> DetectorOutput:
        """Search for every pair's query.

        Raises:
            ConfigError: If there is no index.
        """
        from noisyir.detection.competitors import lexical_competitors
        from noisyir.retrieval.numpy_bm25 import NumpyBm25

        if given.lexical_index is None:
            raise ConfigError("detection.detector_needs_lexical_index", kind=self.kind)
        searcher = NumpyBm25(given.lexical_index / "bm25s", k1=self.k1, b=self.b)
        row_of, chosen = given.documents.passages(searcher.doc_ids), np.arange(len(given.pairs))
        found = lexical_competitors(
            searcher, given.query_texts, row_of, given.pairs, chosen, keep=_KEPT, wrong=given.wrong
        )
        return DetectorOutput(self.scores_of(found, given.wrong), found)


class Bm25Margin(LexicalSearch, kind="bm25_margin"):
    """The best other document's BM25 score minus the pair's own."""

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Return the margins."""
        return found.margins(wrong)


class Consistency(LexicalSearch, kind="consistency"):
    """Natural logarithm of the document's BM25 rank, from a retriever trained on no pair; the filter keeps only 0.

    Made-up documents are assumed to rank below everything that is ranked.

    Source: the consistency filter of Dai et al. (Promptagator), ICLR 2023, by another retriever than the one trained.
    """

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Return the log ranks."""
        beyond = np.full(found.made_up.shape, np.log(found.depth + 1))
        return Scores(found.log_rank(), wrong.by_null(beyond))
