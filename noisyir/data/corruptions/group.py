"""Wrong pairs that come in clusters: all from some sources of the corpus, drawn at random."""

from typing import Literal

import numpy as np
from jaxtyping import Int
from pydantic import Field

from noisyir.data.corruptions import ChosenPairs, Noise
from noisyir.data.corruptions.uniform import draw_mismatches
from noisyir.errors import DataError
from noisyir.settings import Fraction


class Group(Noise):
    """Pairs of some sources, each with any training pair's document."""

    kind: Literal["group"] = "group"
    group_rate: Fraction = Field(0.8, description="the share replaced within the noisy groups")

    def choose(self, source: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Ascending row numbers of exactly round(rate * pairs) pairs, all of them of sources drawn at random.

        In each drawn source the share `group_rate` of the pairs is chosen, in the last one what is left to choose.
        DataError when no pair has a source, or when all the sources together hold too few pairs.
        """
        wanted = round(self.rate * len(source))
        sizes = np.bincount(source[source >= 0])
        if wanted and not len(sizes):
            raise DataError(
                "noise.kind=group needs pairs with a source, and no training pair has one; "
                "those of pydocs and squad do, beir takes metadata.source of corpus.jsonl, pairs a source column"
            )
        order = rng.permutation(len(sizes))
        upto = np.cumsum(sizes[order])  # pairs of this source and those before it
        reached = np.rint(self.group_rate * upto).astype(np.int64)
        if wanted and reached[-1] < wanted:
            highest = np.floor(1e4 * reached[-1] / len(source)) / 1e4
            raise DataError(
                f"noise.rate={self.rate} cannot be reached at noise.group_rate={self.group_rate}: {sizes.sum()} of "
                f"the {len(source)} training pairs have a source, so the highest rate possible is {highest}"
            )
        quotas = np.diff(np.minimum(reached, wanted), prepend=0)
        chosen = [
            rng.choice(np.flatnonzero(source == number), size=quota, replace=False)
            for number, quota in zip(order, quotas, strict=True)
            if quota
        ]
        return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Uniform over what is wrong for the query."""
        return draw_mismatches(chosen, rng)
