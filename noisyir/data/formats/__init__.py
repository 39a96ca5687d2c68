"""Input formats, a file each: the settings of raw data, and what reads documents, queries and judgements from it.

No checks of records: those, whatever the format, are in `data/validate.py`.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, PositiveInt

from noisyir.data.records import Source
from noisyir.data.settings import RecordParams
from noisyir.engine.provenance import may_be_absent
from noisyir.variants import Variant


class Format(Variant, RecordParams):
    """Where raw data of one format lies, and how it becomes tables."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.formats"
    renamed: ClassVar[Mapping[str, str]] = {"dataset": "kind"}

    min_relevance: PositiveInt = Field(
        1, description="least judgement that makes a training pair; TREC DL's relevant is 2"
    )

    @property
    def has_negatives(self) -> bool:
        """Whether the data gives wrong documents for queries; it is known before anything is read."""
        return False

    def open(self, workers: int | None = None) -> Source:
        """The raw data that the settings name; nothing is read yet.  DataError when a folder or file is missing.

        workers: processes that may read; None: as many as there are cores.
        """
        raise NotImplementedError

    @may_be_absent
    def digest(self) -> str:
        """A hash of the raw data's content, for the key of ingest.  DataError when a folder or file is missing."""
        return self.open().digest()
