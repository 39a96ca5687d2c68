"""How much better the best other document of the collection fits the query."""

from typing import TYPE_CHECKING, Literal

from noisyir.detection.combine import Scores
from noisyir.detection.detectors.cross_fitted import DenseSearch

if TYPE_CHECKING:
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.synthetic import References


class Margin(DenseSearch):
    """The best other document's similarity minus the pair's own."""

    kind: Literal["margin"] = "margin"

    def scores_of(self, found: "Competitors", wrong: "References") -> Scores:
        """The margins."""
        return found.margins(wrong)
