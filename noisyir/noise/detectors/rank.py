"""The rank of a pair's document in the whole collection."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from noisyir.noise.combine import Scores
from noisyir.noise.detectors.cross_fitted import DenseSearch

if TYPE_CHECKING:
    from noisyir.noise.competitors import Competitors
    from noisyir.noise.synthetic import References


class Rank(DenseSearch):
    """Ln of the document's rank; synthetic documents are taken to lie deeper than the search goes."""

    kind: Literal["rank"] = "rank"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """The log-ranks."""
        beyond = np.full(found.made_up.shape, np.log(found.depth + 1))
        return Scores(found.log_rank(), wrong.by_null(beyond))
