"""Bases of what an experiment adds to a plan: ways to train a retriever, and steps of other packages on the data."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from noisyir.base.variants import Variant, by_kind
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Outputs


class Method(Variant):
    """A way to train a retriever.  Tables tell apart what it trains by its kind."""

    home: ClassVar[str] = "noisyir.methods"
    group: ClassVar[str | None] = "noisyir.methods"
    sees_truth: ClassVar[bool] = False  # of noise that was put in: nobody can use what it trains

    def train(self, context: Any) -> Outputs:
        """Plan the training on a `Context`; the outputs of the last step: `model`, `curves`, perhaps `ranker`."""
        raise NotImplementedError


class Preparation(Variant):
    """A step on the ingested tables."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.preparations"

    def add_to(self, plan: Plan, data: Outputs) -> Outputs:
        """Add its stage to the plan; returns the tables that stand in the place of `data`'s from now on."""
        raise NotImplementedError


Preparations = Annotated[Mapping[str, Preparation], BeforeValidator(by_kind)]
"""Preparations by kind, in the order in which they are made; null in place of settings switches one off."""
