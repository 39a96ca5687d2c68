"""Input formats, a file each: settings of raw data, and readers of its records; checks are in validate.py only."""

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

COUNTED = 30_000  # pairs; no setting depends on a larger number


class Summary(NamedTuple):
    """The number of pairs, counted up to COUNTED, and the held-out splits in raw data."""

    pairs: int
    splits: frozenset[Split]


class Format(Variant, RecordParams):
    """Raw data of one format: its location, and how it becomes records.

    Args:
        written: Ending of the file that `write` makes, empty for a folder, None if the format is only read.
        holds_weights: Whether `write` keeps weights of pairs.
        holds_negatives: Whether `write` keeps wrong documents.
        holds_pairs: Whether data without a pair is none.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.formats"
    renamed: ClassVar[Mapping[str, str]] = {"dataset": "kind"}
    written: ClassVar[str | None] = None
    holds_weights: ClassVar[bool] = False
    holds_negatives: ClassVar[bool] = True
    holds_pairs: ClassVar[bool] = True

    min_relevance: PositiveInt = Field(
        1, description="least judgement that makes a training pair; TREC DL's relevant is 2"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_the_hub(cls, values: Any) -> Any:
        """Download hf:// names to local paths; nothing else is downloaded."""
        if not isinstance(values, dict):
            return values
        named = {name: value for name, value in values.items() if isinstance(value, str) and is_on_hub(value)}
        return values | {name: downloaded(value) for name, value in named.items() if name in cls.locations()}

    @property
    def has_negatives(self) -> bool:
        """Whether the first rows give wrong documents; False for missing data."""
        try:
            source = self.open()
        except NoisyirError:
            return False
        return isinstance(source, ExampleSource) and source.gives_negatives

    def calls_wrong(self, split: Split) -> bool:
        """Whether a held-out query with a relevant document also has a wrong one; False for unreadable data."""
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
        """Whether a first row is of this format, and hardly of another."""
        return False

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Write a file or folder of this format, or raise DataError if it cannot hold the collection."""
        raise DataError("data.format_not_written", kind=cls.model_fields["kind"].default)

    def open(self, workers: int | None = None) -> Source:
        """The raw data, not read yet; DataError if a file or folder is missing or of another format.

        Args:
            workers: Processes that may read; None for one on each core.
        """
        raise NotImplementedError

    def summary(self) -> Summary:
        """The size and held-out splits as far as they are quickly known; a folder is large and has both splits."""
        return Summary(COUNTED, frozenset(HELD_OUT))

    @may_be_absent
    def digest(self) -> str:
        """A hash of the raw content, for the key of ingest."""
        return self.open().digest()


class SourceOfRows(Source, Protocol):
    """A source with pairs that can be read by themselves, and only as far as needed."""

    def judgements(self) -> Iterator[Judgement]:
        """Every pair, repeated or not."""


class FormatOfRows(Format):
    """A format with held-out splits that reading finds."""

    path: Location = None

    def open(self, workers: int | None = None) -> SourceOfRows:
        """See `Format.open`."""
        raise NotImplementedError

    def summary(self) -> Summary:
        """Pairs and splits by one reading of unchanged files; missing data counts as large."""
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
        """Whether a row may be in another split than train."""
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
