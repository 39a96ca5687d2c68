"""Wrong pairs whose right document is nowhere: as in a file of questions with answers, each answer named once."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Int

from noisyir.data.corruptions import Noise, Spoilt, TrainingPairs
from noisyir.data.corruptions.uniform import draw_mismatches


class Absent(Noise):
    """Any documents, all of whose training pairs get another document, while they leave the collection."""

    kind: Literal["absent"] = "absent"
    changes_corpus: ClassVar[bool] = True

    def spoil(self, given: TrainingPairs) -> Spoilt:
        """Exactly round(rate * pairs) pairs, those of documents in a random order.

        With one pair a document this is any pairs.  The last document may keep some of its pairs, and then it stays.
        The wrong document is uniform over those that stay and are wrong for the query: DataError when there is none.
        """
        rows, leaving = self._by_document(given)

        def is_no_wrong_document(
            some: Int[np.ndarray, " draw"], drawn: Int[np.ndarray, " draw"]
        ) -> Bool[np.ndarray, " draw"]:
            relevant: Bool[np.ndarray, " draw"] = leaving[drawn] | given.is_relevant(rows[some], drawn)
            return relevant

        chosen = replace(given.of(rows), is_relevant=is_no_wrong_document)
        drawn = draw_mismatches(chosen, given.rng("documents"))
        return Spoilt(rows, drawn, leaving=np.flatnonzero(leaving))

    def _by_document(self, given: TrainingPairs) -> tuple[Int[np.ndarray, " noisy"], Bool[np.ndarray, " pool"]]:
        """The pairs' rows, and which documents have no other."""
        rng, document, pool = given.rng("pairs"), given.document, len(given.texts)
        place = rng.permutation(pool)
        rows = np.lexsort((rng.random(len(document)), place[document]))[: round(self.rate * len(document))]
        left = np.bincount(document, minlength=pool) - np.bincount(document[rows], minlength=pool)
        leaving = np.zeros(pool, bool)
        leaving[document[rows]] = True
        return np.sort(rows), leaving & (left == 0)
