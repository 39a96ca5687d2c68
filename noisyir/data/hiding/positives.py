"""Pairs of queries with several are taken away (Wang et al., AAAI 2024)."""

from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from noisyir.data.draws import choose_pairs
from noisyir.data.hiding import Hidden, Hiding, Labelled
from noisyir.errors import DataError


class Positives(Hiding):
    """Some of the pairs that a query has beside one leave the training data."""

    kind: Literal["positives"] = "positives"
    adds_documents: ClassVar[bool] = False

    def hide(self, given: Labelled) -> Hidden:
        """Exactly round(rate * n) of the n pairs that stand beside another pair of their query."""
        training = given.training
        query = training["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        free = np.flatnonzero(hideable(query, given.rng("stays")))
        if self.rate and not len(free):
            raise DataError(
                f"hide.kind=positives needs training queries with several pairs, and each of the {len(training)} "
                "training pairs is its query's only one: set hide.kind=near_duplicates, or hide.rate=0"
            )
        hidden = training.take(free[choose_pairs(len(free), self.rate, given.rng("pairs"))])
        counts = {"training_pairs": len(training), "hideable": len(free), "hidden": len(hidden)}
        truth = hidden.append_column("edit_rate", pa.nulls(len(hidden), pa.float32()))
        return Hidden(truth, counts, pairs=hidden["row"].to_numpy())


def hideable(query: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Bool[np.ndarray, " pair"]:
    """All pairs but one of each query, which is drawn at random and stays.

    Source: Wang et al., AAAI 2024, section 4.1, which turns some positives into false negatives at random.
    """
    shuffled = rng.permutation(len(query))
    free = np.ones(len(query), bool)
    free[shuffled[np.unique(query[shuffled], return_index=True)[1]]] = False
    return free
