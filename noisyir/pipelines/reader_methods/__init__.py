"""How readers are trained on distant labels: what a method changes in `reader.train`.  No arithmetic."""

from collections.abc import Mapping
from typing import Any, ClassVar

from noisyir.readers.settings import Passages
from noisyir.training.settings import TrainReaderParams
from noisyir.variants import Variant


class ReaderMethod(Variant):
    """A way to train a reader.

    changes: what of `reader.train` it sets.  labels: whose passages it is trained on; None stands for `reader.labels`.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.readers"
    changes: ClassVar[Mapping[str, Any]] = {}
    labels: ClassVar[Passages | None] = None

    def settings(self, train: TrainReaderParams) -> TrainReaderParams:
        """The settings of its training, from those of all methods."""
        return train.model_copy(update=dict(self.changes))

    @property
    def is_cds(self) -> bool:
        """Whether the method has confidences and wants confusing passages."""
        return self.changes.get("objective") == "cds"
