"""Bases of an experiment's methods, and of other packages' steps on its data."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from noisyir.base.variants import Variant, by_kind
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Outputs
from noisyir.retrieval.settings import EncodeParams


class Method(Variant):
    """A way to train a retriever."""

    home: ClassVar[str] = "noisyir.methods"
    group: ClassVar[str | None] = "noisyir.methods"
    sees_truth: ClassVar[bool] = False  # it knows which noise was put in: no one can use its model

    def train(self, context: Any) -> Outputs:
        """Plan the training on a `Context`; returns at least `model` and `curves`, perhaps `ranker`."""
        raise NotImplementedError

    def encoding(self, encode: EncodeParams) -> EncodeParams:
        """How the model's vectors are computed, by default as the experiment's."""
        return encode


class Preparation(Variant):
    """A step on the ingested tables."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.preparations"

    def add_to(self, plan: Plan, data: Outputs) -> Outputs:
        """Add its stage to the plan; returns the tables that replace `data`'s."""
        raise NotImplementedError


Preparations = Annotated[Mapping[str, Preparation], BeforeValidator(by_kind)]
"""Preparations by kind, in order; null in place of settings switches one off."""
