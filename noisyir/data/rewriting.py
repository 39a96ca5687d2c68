"""Wrong documents that are made of the right one: what their kinds of noise have in common."""

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from noisyir.data.corruptions import Corruption, PairsToCorrupt, Spoilt, in_turn
from noisyir.data.id_texts import text_key

Rewriter = Callable[[int], Iterator[str]]


class Rewriting(Corruption):
    """Pairs whose document is a changed version of the right one, which stays in the collection beside it."""

    changes_corpus: ClassVar[bool] = True
    need: ClassVar[str]

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """A maker of versions of the document of a number, the first that is wrong and new being taken."""
        raise NotImplementedError

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Each pair's document becomes a version of its own that is no document yet and holds no answer to the query.

        Pairs of one document may share a version, and those of one query never do.  A pair without such a version is
        passed over; DataError when too few are left.
        """
        versions = self.rewriter(given.texts, given.rng("documents"))
        made: dict[int, int] = {}  # by the version's key, the number of the document that it is made of
        given_to: set[tuple[int, int]] = set()  # (query, version)

        def version_of(row: int) -> str | None:
            query, document = int(given.query[row]), int(given.document[row])
            for text in versions(document):
                key = text_key(text)
                is_new = made.get(key, document) == document and (query, key) not in given_to
                if is_new and text.strip() and not given.is_there(text) and not given.holds_answer(row, text):
                    made[key] = document
                    given_to.add((query, key))
                    return text
            return None

        found = in_turn(self, len(given.query), given.rng("pairs"), version_of, self.need)
        return Spoilt(np.array(list(found), np.int64), texts=list(found.values()))
