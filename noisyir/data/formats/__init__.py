"""Input formats, a file each: the settings of raw data, and what reads documents, queries and judgements from it.

No checks of records: those, whatever the format, are in `data/validate.py`.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, PositiveInt

from noisyir.data.records import Source
from noisyir.data.settings import RecordParams
from noisyir.engine.provenance import may_be_absent
from noisyir.settings import HELD_OUT, Split
from noisyir.variants import Variant


class Format(Variant, RecordParams):
    """Where raw data of one format lies, and how it becomes tables."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.formats"
    renamed: ClassVar[Mapping[str, str]] = {"dataset": "kind"}

    min_relevance: PositiveInt = Field(
        1, description="least judgement that makes a training pair; TREC DL's relevant is 2"
    )

    def open(self, workers: int | None = None) -> Source:
        """The raw data that the settings name; nothing is read yet.  DataError when a folder or file is missing.

        workers: processes that may read; None: as many as there are cores.
        """
        raise NotImplementedError

    def held_out_splits(self) -> frozenset[Split]:
        """The held-out splits that the data comes with; those of a folder are in its files, whichever they are."""
        return frozenset(HELD_OUT)

    def count_pairs(self, at_most: int) -> int:
        """How many training pairs there are, as far as that is quickly known; `at_most` where there may be more."""
        return at_most

    @may_be_absent
    def digest(self) -> str:
        """A hash of the raw data's content, for the key of ingest.  DataError when a folder or file is missing."""
        return self.open().digest()
