"""The rank of a pair's document among those of a batch."""

from typing import TYPE_CHECKING, Literal

from noisyir.detection.detectors.cross_fitted import InBatchDetector

if TYPE_CHECKING:
    from noisyir.detection.in_batch import Statistic


class InBatchRank(InBatchDetector):
    """Ln of the document's rank among those of a batch: the ranking view of confident learning."""

    kind: Literal["in_batch_rank"] = "in_batch_rank"

    def statistic(self) -> "Statistic":
        """The log-rank."""
        from noisyir.detection.in_batch import log_rank

        return log_rank
