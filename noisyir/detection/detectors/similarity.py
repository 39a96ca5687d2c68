"""The plain similarity of query and document."""

from typing import TYPE_CHECKING, Literal

from noisyir.detection.combine import Scores
from noisyir.detection.detectors.cross_fitted import DenseSearch

if TYPE_CHECKING:
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.synthetic import References


class Similarity(DenseSearch):
    """Minus the similarity of query and document."""

    kind: Literal["similarity"] = "similarity"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """Minus the similarities."""
        return Scores(-found.own, wrong.by_null(-found.made_up))
