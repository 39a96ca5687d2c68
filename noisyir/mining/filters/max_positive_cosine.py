"""A guard against near-duplicates of the positive."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask
from noisyir.mining.filters import Filter


class MaxPositiveCosine(Filter):
    """A guard against near-duplicates of the positive."""

    kind: Literal["max_positive_cosine"] = "max_positive_cosine"
    cosine: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        description="drop what is nearer to the positive than this cosine: a guard against near-duplicates"
    )

    def keeps(self, candidates: Candidates) -> Mask:
        """cos(d+, d-) <= cosine: what nearly repeats a positive is most likely one, whatever it scores.  Ours."""
        _, _, to_positive = candidates.cosines()
        return to_positive <= np.float64(self.cosine)
