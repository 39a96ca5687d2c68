"""Wrong pairs made on purpose, to see what a detector says of them: the nulls that observed scores are held against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from noisyir.detection.collection import EncodedCollection, unnamed
from noisyir.detection.settings import Null
from noisyir.training.batches import NumberedPairs, Rng, Rows, is_known

_ROUNDS = 10  # of drawing again what is known to be right; what is left then is no draw


@dataclass(frozen=True)
class References:
    """For each pair documents that a wrong one might have been, by null: rows of documents, -1 where there is none."""

    nulls: Mapping[Null, Int[np.ndarray, "pair draw"]]

    def of(self, chosen: Rows) -> Self:
        """Those of some pairs."""
        return type(self)({null: rows[chosen] for null, rows in self.nulls.items()})

    def tried(self, own: Rows) -> Int[np.ndarray, "pair draw"]:
        """The documents of all nulls side by side; the pair's own where there is none."""
        rows = np.concatenate(list(self.nulls.values()), axis=1)
        return np.where(rows >= 0, rows, own[:, None])

    def by_null(self, scores: Float[np.ndarray, "pair draw"]) -> dict[Null, Float[np.ndarray, "pair draw"]]:
        """Scores of what `tried` named, null by null; NaN where there is no document."""
        parts = np.split(scores, np.cumsum([rows.shape[1] for rows in self.nulls.values()])[:-1], axis=1)
        return {
            null: np.where(rows >= 0, part, np.nan).astype(np.float32)
            for (null, rows), part in zip(self.nulls.items(), parts, strict=True)
        }


def random_documents(pairs: NumberedPairs, draws: int, rng: Rng) -> Int[np.ndarray, "pair draw"]:
    """For each pair documents of other pairs, each as likely as any other that no pair of its query text names.

    rng: a generator for a draw's number, so that the first draws are the same however many are wanted.
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
    """For each pair the `neighbours` documents nearest to the best other one that the model finds for its query.

    The best other document and what pairs of the query's text name are not among them.
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
    """For each pair the passage of another one, in a random cycle through all pairs: each is given away once."""
    cycle = rng.permutation(len(passage))
    given = np.empty_like(passage)
    given[cycle] = passage[np.roll(cycle, 1)]
    return given
