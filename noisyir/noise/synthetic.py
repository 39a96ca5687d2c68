"""Wrong pairs made on purpose, to see what a detector says of them: the null that observed scores are held against."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import Rows, TrainingPairs
from noisyir.training.validation import embed_all


@dataclass(frozen=True)
class SyntheticNegatives:
    """For each pair two wrong passages: `random`, another pair's, and `near`, one much like its own."""

    random: Rows
    near: Rows

    def of(self, chosen: Rows) -> Self:
        """Those of some pairs."""
        return type(self)(self.random[chosen], self.near[chosen])


def synthetic(
    encoder: BiEncoder, pairs: TrainingPairs, neighbours: int, rng: np.random.Generator
) -> SyntheticNegatives:
    """Draw both, `near` uniformly among the `neighbours` passages of other pairs nearest to the pair's own.

    Where all pairs have the same passage, that one stands in.
    """
    import faiss

    random = passages_of_others(pairs.passage, rng)
    passages = np.unique(pairs.passage)
    if len(passages) == 1:
        return SyntheticNegatives(random, pairs.passage)
    vectors = embed_all(encoder, pairs.passages.take(passages), "passage").cpu().numpy()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    reach = min(neighbours, len(passages) - 1)
    found = index.search(vectors, reach + 1)[1]
    own = found == np.arange(len(passages))[:, None]
    own[~own.any(axis=1), -1] = True  # equal vectors may push a passage out of its own list
    others = found[~own].reshape(len(passages), reach)
    place = np.searchsorted(passages, pairs.passage)
    return SyntheticNegatives(random, passages[others[place, rng.integers(reach, size=len(pairs))]])


def passages_of_others(passage: Rows, rng: np.random.Generator) -> Rows:
    """For each pair the passage of another one, in a random cycle through all pairs: each is given away once."""
    cycle = rng.permutation(len(passage))
    given = np.empty_like(passage)
    given[cycle] = passage[np.roll(cycle, 1)]
    return given
