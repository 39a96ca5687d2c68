"""Detectors of one measure each: of a trained model's scores, of the ranking among other documents, of BM25."""

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from noisyir.detection.combine import Scores
from noisyir.detection.detectors import Detector, DetectorOutput, PairsToScore
from noisyir.detection.detectors.cross_fitted import _KEPT, DenseSearch, InBatchDetector
from noisyir.errors import ConfigError
from noisyir.settings import Fraction

if TYPE_CHECKING:
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.in_batch import Statistic
    from noisyir.detection.synthetic import References


class Similarity(DenseSearch):
    """Minus the similarity of query and document."""

    kind: Literal["similarity"] = "similarity"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Minus the similarities."""
        return Scores(-found.own, wrong.by_null(-found.made_up))


class Margin(DenseSearch):
    """The best other document's similarity minus the pair's own."""

    kind: Literal["margin"] = "margin"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """The margins."""
        return found.margins(wrong)


class PairNll(InBatchDetector):
    """The pair's negative log-likelihood among the documents of a batch, in nats."""

    kind: Literal["pair_nll"] = "pair_nll"

    def statistic(self) -> "Statistic":
        """The negative log-likelihood."""
        from noisyir.losses.dpr import pair_nll

        return pair_nll


class Rank(DenseSearch):
    """Ln of the document's rank; synthetic documents are taken to lie deeper than the search goes."""

    kind: Literal["rank"] = "rank"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """The log-ranks."""
        beyond = np.full(found.made_up.shape, np.log(found.depth + 1))
        return Scores(found.log_rank(), wrong.by_null(beyond))


class InBatchRank(InBatchDetector):
    """Ln of the document's rank among those of a batch: the ranking view of confident learning."""

    kind: Literal["in_batch_rank"] = "in_batch_rank"

    def statistic(self) -> "Statistic":
        """The log-rank."""
        from noisyir.detection.in_batch import log_rank

        return log_rank


class Bm25Margin(Detector):
    """The best other document's BM25 score minus the pair's own."""

    kind: Literal["bm25_margin"] = "bm25_margin"
    searches: ClassVar[bool] = True
    lexical: ClassVar[bool] = True
    draws: ClassVar[int] = 19

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")

    def score(self, given: PairsToScore) -> DetectorOutput:
        """Search for every pair's query.  ConfigError without an index."""
        from noisyir.detection.competitors import lexical_competitors
        from noisyir.retrieval.numpy_bm25 import NumpyBm25

        if given.lexical_index is None:
            raise ConfigError("the detector bm25_margin needs a lexical index of engine bm25s")
        searcher = NumpyBm25(given.lexical_index / "bm25s", k1=self.k1, b=self.b)
        row_of, chosen = given.documents.passages(searcher.doc_ids), np.arange(len(given.pairs))
        found = lexical_competitors(
            searcher, given.query_texts, row_of, given.pairs, chosen, keep=_KEPT, wrong=given.wrong
        )
        return DetectorOutput(found.margins(given.wrong), found)
