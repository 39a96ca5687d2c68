"""What can be done about wrong labels: one file a method, from an experiment's pairs to a trained model's outputs.

A method adds steps to a plan and computes nothing: the arithmetic is in the stages that it names.
"""

from typing import Any, ClassVar

from noisyir.engine.stage import Outputs
from noisyir.variants import Variant


class Method(Variant):
    """A way to train a retriever.  What it trains is told apart in tables by its kind."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.methods"

    def train(self, context: Any) -> Outputs:
        """Plan the training on a `Context`; the outputs of the last step: `model`, `curves`, perhaps `ranker`."""
        raise NotImplementedError
