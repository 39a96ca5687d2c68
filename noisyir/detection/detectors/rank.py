"""The rank of a pair's document in the whole collection."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from noisyir.detection.combine import Scores
from noisyir.detection.detectors.cross_fitted import DenseSearch

if TYPE_CHECKING:
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.synthetic import References


class Rank(DenseSearch):
    """Ln of the document's rank; synthetic documents are taken to lie deeper than the search goes."""

    kind: Literal["rank"] = "rank"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """The log-ranks."""
        beyond = np.full(found.made_up.shape, np.log(found.depth + 1))
        return Scores(found.log_rank(), wrong.by_null(beyond))
