"""The same margin by words: how much better BM25 likes the best other document of the collection."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from noisyir.detection.detectors import Detector, PairsToScore, Scored
from noisyir.detection.detectors.cross_fitted import _KEPT
from noisyir.errors import ConfigError
from noisyir.settings import Fraction


class Bm25Margin(Detector):
    """The best other document's BM25 score minus the pair's own."""

    kind: Literal["bm25_margin"] = "bm25_margin"
    searches: ClassVar[bool] = True
    lexical: ClassVar[bool] = True
    draws: ClassVar[int] = 19

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")

    def score(self, given: PairsToScore) -> Scored:
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
        return Scored(found.margins(given.wrong), found)
