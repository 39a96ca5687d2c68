"""Wrong pairs made on purpose: the nulls that observed scores are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from noisyir.detection.collection import EncodedCollection, unnamed
from noisyir.detection.settings import Null
from noisyir.training.batches import NumberedPairs, Rng, Rows, is_known

_ROUNDS = 10  # of redrawing documents known to be right; the remaining ones are dropped


@dataclass(frozen=True)
class References:
    """For each pair, documents that a wrong pair might have, by null: rows of documents, -1 for none."""

    nulls: Mapping[Null, Int[np.ndarray, "pair draw"]]

    def of(self, chosen: Rows) -> Self:
        """Restrict to some pairs."""
        return type(self)({null: rows[chosen] for null, rows in self.nulls.items()})

    def tried(self, own: Rows) -> Int[np.ndarray, "pair draw"]:
        """Documents of all nulls side by side; the pair's own in place of -1."""
        rows = np.concatenate(list(self.nulls.values()), axis=1)
        return np.where(rows >= 0, rows, own[:, None])

    def by_null(self, scores: Float[np.ndarray, "pair draw"]) -> dict[Null, Float[np.ndarray, "pair draw"]]:
        """Split scores of `tried` by null; NaN if there is no document."""
        parts = np.split(scores, np.cumsum([rows.shape[1] for rows in self.nulls.values()])[:-1], axis=1)
        return {
            null: np.where(rows >= 0, part, np.nan).astype(np.float32)
            for (null, rows), part in zip(self.nulls.items(), parts, strict=True)
        }


def random_documents(pairs: NumberedPairs, draws: int, rng: Rng) -> Int[np.ndarray, "pair draw"]:
    """Draw documents of other pairs for each pair, uniformly among documents that no pair of its query text names.

    Args:
        rng: Returns the generator of a draw's number, so that the first draws do not depend on how many are drawn.
    """
    found = np.full((len(pairs), draws), -1, np.int64)
    named = np.unique(pairs.passage)
    for draw in range(draws):
        generator = rng(draw)
        missing = np.arange(len(pairs))
        for _ in range(_ROUNDS):
            drawn = named[generator.integers(len(named), size=len(missing))]
            fits = ~is_known(pairs.known, pairs.text[pairs.query[missing]], drawn)
            found[missing[fits], draw] = drawn[fits]
            missing = missing[~fits]
    return found


def near_documents(
    collection: EncodedCollection, pairs: NumberedPairs, neighbours: int
) -> Int[np.ndarray, "pair draw"]:
    """Find, for each pair, the `neighbours` documents nearest to the best other one that the model finds for its query.

    Excludes the best other document and those named by pairs of the query's text.
    """
    text, most_known = pairs.text[pairs.query], int(np.diff(pairs.known.offsets).max(initial=0))
    hits, _ = collection.search(collection.queries[pairs.query], 1 + most_known)
    best = unnamed(pairs.known, text, hits, 1)[0][:, 0]
    searched, place = np.unique(best, return_inverse=True)
    beside = collection.search(collection.documents[np.maximum(searched, 0)], neighbours + 1 + most_known)[0][place]
    near, _ = unnamed(pairs.known, text, np.where(beside == best[:, None], -1, beside), neighbours)
    near = np.pad(near, ((0, 0), (0, neighbours - near.shape[1])), constant_values=-1)
    return np.where(best[:, None] >= 0, near, -1)


def passages_of_others(passage: Rows, rng: np.random.Generator) -> Rows:
    """Give each pair another pair's passage, along a random cycle through all pairs, so that each is used once."""
    cycle = rng.permutation(len(passage))
    given = np.empty_like(passage)
    given[cycle] = passage[np.roll(cycle, 1)]
    return given
