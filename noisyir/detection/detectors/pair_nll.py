"""The pair loss of noisy pair correction (Zhang et al., Findings of EMNLP 2023, Eq. 3)."""

from typing import TYPE_CHECKING, Literal

from noisyir.detection.detectors.cross_fitted import InBatchDetector

if TYPE_CHECKING:
    from noisyir.detection.in_batch import Statistic


class PairNll(InBatchDetector):
    """The pair's negative log-likelihood among the documents of a batch, in nats."""

    kind: Literal["pair_nll"] = "pair_nll"

    def statistic(self) -> "Statistic":
        """The negative log-likelihood."""
        from noisyir.losses.dpr import pair_nll

        return pair_nll
