"""Ways to train a retriever from noisy pairs, of which each is a file in `noisyir/methods`."""

from typing import Any, ClassVar

from noisyir.engine.stage import Outputs
from noisyir.variants import Variant


class Method(Variant):
    """A way to train a retriever.  Tables tell apart what it trains by its kind."""

    home: ClassVar[str] = "noisyir.methods"
    group: ClassVar[str | None] = "noisyir.methods"

    def train(self, context: Any) -> Outputs:
        """Plan the training on a `Context`; the outputs of the last step: `model`, `curves`, perhaps `ranker`."""
        raise NotImplementedError
