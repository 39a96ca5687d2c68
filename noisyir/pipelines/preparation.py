"""Steps of other packages on the tables of ingest, before all that is made of them; noisyir itself has none."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from noisyir.engine.plan import Plan
from noisyir.engine.stage import Outputs
from noisyir.variants import Variant, by_kind


class Preparation(Variant):
    """A step on the ingested tables."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.preparations"

    def add_to(self, plan: Plan, data: Outputs) -> Outputs:
        """Add its stage to the plan; returns the tables that stand in the place of `data`'s from now on."""
        raise NotImplementedError


Preparations = Annotated[Mapping[str, Preparation], BeforeValidator(by_kind)]
"""Preparations by kind, in the order in which they are made; null in place of settings switches one off."""
