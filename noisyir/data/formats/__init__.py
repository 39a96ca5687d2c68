"""Input formats, a file each: the settings of raw data, and what reads documents, queries and judgements from it.

No checks of records: those, whatever the format, are in `data/validate.py`.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import Field, PositiveInt, model_validator

from noisyir.base.errors import DataError, NoisyirError
from noisyir.base.settings import HELD_OUT, Location, Split
from noisyir.base.variants import Variant
from noisyir.data.collection import Collection
from noisyir.data.examples import ExampleSource
from noisyir.data.limits import fetched, is_on_hub
from noisyir.data.records import Judgement, Negative, Source
from noisyir.data.settings import RecordParams
from noisyir.engine.provenance import may_be_absent


class Format(Variant, RecordParams):
    """Where raw data of one format lies, and how it becomes tables.

    written: what the name of a file ends with that `write` makes, empty for a folder; None: it is read alone.
    holds_weights, holds_negatives: whether what is written says how much a pair counts, and names wrong documents.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.formats"
    renamed: ClassVar[Mapping[str, str]] = {"dataset": "kind"}
    written: ClassVar[str | None] = None
    holds_weights: ClassVar[bool] = False
    holds_negatives: ClassVar[bool] = True

    min_relevance: PositiveInt = Field(
        1, description="least judgement that makes a training pair; TREC DL's relevant is 2"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_the_hub(cls, values: Any) -> Any:
        """Fetch hf:// names, which are paths like others from then on; nothing else is ever fetched."""
        if not isinstance(values, dict):
            return values
        named = {name: value for name, value in values.items() if isinstance(value, str) and is_on_hub(value)}
        return values | {name: fetched(value) for name, value in named.items() if name in cls.locations()}

    @property
    def has_negatives(self) -> bool:
        """Whether the first rows give wrong documents for their queries; data that is not there gives none."""
        try:
            source = self.open()
        except NoisyirError:
            return False
        return isinstance(source, ExampleSource) and source.gives_negatives

    def calls_wrong(self, split: Split) -> bool:
        """Whether a document is judged or given as wrong for a query of a held-out split that has a relevant one.

        All is read until one is found; data that cannot be read has none.
        """
        right: set[str] = set()
        wrong: set[str] = set()
        try:
            for record in self.open().records():
                if isinstance(record, Judgement) and record.split == split:
                    grade = self.min_relevance if record.relevance is None else record.relevance
                    if grade >= self.min_relevance or grade <= 0:
                        (right if grade > 0 else wrong).add(record.query_id)
                elif isinstance(record, Negative):
                    wrong.add(record.query_id)
                if not wrong.isdisjoint(right):
                    return True
        except NoisyirError:
            pass
        return False

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """Whether a row like this first one is of this format, and could hardly be of another."""
        return False

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A file or folder of this format that says what the collection says.  DataError where that cannot be."""
        raise DataError("data.format_can_read_not", default=cls.model_fields["kind"].default)

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


class SourceOfRows(Source, Protocol):
    """A source of which the pairs can be read by themselves, and no further than is asked for."""

    def judgements(self) -> Iterator[Judgement]:
        """Every pair, repeated ones, too."""


class FormatOfRows(Format):
    """A format whose held-out splits are known by reading it."""

    path: Location = None

    def open(self, workers: int | None = None) -> SourceOfRows:
        """As of any format."""
        raise NotImplementedError

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
