"""What formats have in common whose rows say themselves which split they are of.  No format is decided here."""

from itertools import islice
from pathlib import Path

from noisyir.data.formats import Format
from noisyir.settings import HELD_OUT, Location, Split


class FormatOfRows(Format):
    """A format whose held-out splits are known by reading it."""

    path: Location = None

    def held_out_splits(self) -> frozenset[Split]:
        """Those that a row says; none of a file that is not there."""
        if not self._is_there:
            return frozenset()
        found: set[Split] = set()
        for judgement in self.open().judgements():
            found.add(judgement.split)
            if found.issuperset(HELD_OUT):
                break
        return frozenset(found.intersection(HELD_OUT))

    def count_pairs(self, at_most: int) -> int:
        """The pairs, read until there are so many."""
        return sum(1 for _ in islice(self.open().judgements(), at_most)) if self._is_there else at_most

    @property
    def _is_there(self) -> bool:
        return self.path is not None and Path(self.path).exists()
