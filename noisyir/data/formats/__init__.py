"""Input formats, a file each: the settings of raw data, and what reads documents, queries and judgements from it.

No checks of records: those, whatever the format, are in `data/validate.py`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from pydantic import Field, PositiveInt, model_validator

from noisyir.base.errors import DataError, NoisyirError
from noisyir.base.settings import HELD_OUT, Location, Split
from noisyir.base.variants import Variant
from noisyir.data.collection import Collection
from noisyir.data.examples import ExampleSource, ShapedRows
from noisyir.data.records import Judgement, Negative, Source
from noisyir.data.settings import RecordParams
from noisyir.engine.file_memory import remembered
from noisyir.engine.hub import downloaded, is_on_hub
from noisyir.engine.provenance import may_be_absent

COUNTED = 30_000  # pairs: of how many more there are no setting depends


class Summary(NamedTuple):
    """The number of pairs, counted up to COUNTED, and the held-out splits that raw data comes with."""

    pairs: int
    splits: frozenset[Split]


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
        return values | {name: downloaded(value) for name, value in named.items() if name in cls.locations()}

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
        raise DataError("data.format_not_written", kind=cls.model_fields["kind"].default)

    def open(self, workers: int | None = None) -> Source:
        """The raw data that the settings name; nothing is read yet.  DataError when a folder or file is missing.

        workers: processes that may read; None: as many as there are cores.
        """
        raise NotImplementedError

    def summary(self) -> Summary:
        """The size and the held-out splits, as far as they are quickly known: a folder is large and has both splits."""
        return Summary(COUNTED, frozenset(HELD_OUT))

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

    def summary(self) -> Summary:
        """The pairs and the splits that rows name, by one reading of unchanged files; one not there is large."""
        if not self._is_there:
            return Summary(COUNTED, frozenset())
        settings = self.model_dump_json(exclude={*RecordParams.model_fields})
        pairs, splits = remembered(self._files(), f"summary of {settings}", self._read_for_summary)
        return Summary(pairs, frozenset(splits))

    def _read_for_summary(self) -> tuple[int, list[Split]]:
        pairs, found = 0, set[Split]()
        source = self.open()
        names_splits = self._names_splits(source)
        for pairs, split in enumerate(self._splits(source), 1):
            found.add(split)
            if pairs >= COUNTED and (found.issuperset(HELD_OUT) or not names_splits):
                break
        return min(pairs, COUNTED), sorted(found.intersection(HELD_OUT))

    def _names_splits(self, source: Any) -> bool:
        """Whether a row may be of another split than train."""
        return not isinstance(source, ShapedRows) or "split" in source.file.columns

    def _splits(self, source: Any) -> Iterator[Split]:
        """The split of each pair."""
        return (judgement.split for judgement in source.judgements())

    def _files(self) -> list[Path]:
        """Every file that is read."""
        places = [Path(place) for name in self.locations() if (place := getattr(self, name)) is not None]
        inside = (path for place in places if place.is_dir() for path in place.rglob("*") if path.is_file())
        return [*(place for place in places if not place.is_dir()), *sorted(inside)]

    @property
    def _is_there(self) -> bool:
        return self.path is not None and Path(self.path).exists()
