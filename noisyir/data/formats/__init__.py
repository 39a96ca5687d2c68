"""Input formats, a file each: settings of raw data, and readers of its records; rules are in intake.py only."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from pydantic import Field, PositiveInt, model_validator

from noisyir.base.errors import DataError, NoisyirError
from noisyir.base.settings import HELD_OUT, Location, Split
from noisyir.base.variants import Variant
from noisyir.data.collection import Collection
from noisyir.data.containers import FIRST_ROWS
from noisyir.data.containers.csv_file import dialect_of
from noisyir.data.examples import ExampleSource, ShapedRows
from noisyir.data.records import Document, Judgement, Negative, Query, Source, one_by_one
from noisyir.data.settings import RecordParams
from noisyir.data.words import signs, words
from noisyir.engine.file_memory import remembered
from noisyir.engine.hub import downloaded, is_on_hub
from noisyir.engine.provenance import may_be_absent

T = TypeVar("T")
COUNTED = 30_000  # pairs; no setting depends on a larger number


class Summary(NamedTuple):
    """Pairs that are right, counted up to COUNTED, 0 if none is of train; held-out splits; and the labels' meaning."""

    pairs: int
    splits: frozenset[Split]
    labels: str = ""


class Format(Variant, RecordParams):
    """Raw data of one format: its location, and how it becomes records.

    Args:
        written: Ending of the file that `write` makes, empty for a folder, None if the format is only read.
        holds_weights: Whether `write` keeps weights of pairs.
        holds_negatives: Whether `write` keeps wrong documents.
        holds_pairs: Whether data without a pair is none.
        only_split: The split that all pairs of a written file are read as; None if it names them.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.formats"
    renamed: ClassVar[Mapping[str, str]] = {"dataset": "kind"}
    written: ClassVar[str | None] = None
    holds_weights: ClassVar[bool] = False
    holds_negatives: ClassVar[bool] = True
    holds_pairs: ClassVar[bool] = True
    only_split: ClassVar[Split | None] = None

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
        """Whether the first rows give wrong documents; False for missing or unreadable data."""
        with suppress(NoisyirError):
            source = self.open()
            rows = isinstance(source, ExampleSource) and map(source.example, islice(source.rows(), FIRST_ROWS))
            return any(example.negatives for example in rows or ())
        return False

    @property
    def has_weights(self) -> bool:
        """Whether the data gives pairs a weight in training; False for missing data."""
        return False

    def calls_wrong(self, split: Split) -> bool:
        """Whether a held-out query with a relevant document also has a wrong one; False for unreadable data."""
        right: set[str] = set()
        wrong: set[str] = set()
        with suppress(NoisyirError):
            for record in self.open().records():
                if isinstance(record, Judgement) and record.split == split:
                    grade = self.min_relevance if record.relevance is None else record.relevance
                    if grade >= self.min_relevance or grade <= 0:
                        (right if grade > 0 else wrong).add(record.query_id)
                elif isinstance(record, Negative):
                    wrong.add(record.query_id)
                if not wrong.isdisjoint(right):
                    return True
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
        """The raw data, to be read by `workers` (None: one a core); missing files are a DataError."""
        raise NotImplementedError

    def summary(self) -> Summary:
        """Training pairs, and both held-out splits if one is there; data that cannot be read here is large."""
        settings = self.model_dump_json(exclude={*RecordParams.model_fields} - {"min_relevance"})
        pairs, is_split = COUNTED, True
        with suppress(NoisyirError):
            if self._is_there:
                pairs, is_split = remembered(self._files(), f"pairs and splits of {settings}", self._pairs_and_splits)
        return Summary(pairs, frozenset(HELD_OUT if is_split else ()))

    def _pairs_and_splits(self) -> tuple[int, bool]:
        """The number of training pairs, and whether others are held out; data without any pair has none to draw."""
        source, pairs, is_split = self.open(), 0, False
        for record in source.judgements() if hasattr(source, "judgements") else source.records():
            if not isinstance(record, Judgement):
                continue
            if record.split != "train":
                is_split = True
            elif record.relevance is None or record.relevance >= self.min_relevance:
                pairs = min(pairs + 1, COUNTED)
            if is_split and pairs == COUNTED:
                break
        return pairs, is_split or not pairs

    def marks(self) -> str | None:
        """Properties of the first records that earlier versions took wrongly: part of a key; None without any."""
        with suppress(NoisyirError):
            return (self._remembered("properties", self._marks) or None) if self._is_there else None
        return None

    def _marks(self) -> str:
        source = self.open()
        first = list(islice(one_by_one(source.records()), COUNTED))
        first += islice(source.queries(), COUNTED) if hasattr(source, "queries") else ()  # behind many documents
        queries = {record.query_id: record.text for record in first if isinstance(record, Query)}
        documents = {record.doc_id: record.text or record.title for record in first if isinstance(record, Document)}
        asked, read = ({text.strip().lower() for text in some.values()} for some in (queries, documents))
        own = not asked.isdisjoint(read) or any(name in documents for name in queries if not name.isdecimal())
        wanted = {*words(" ".join(asked))}
        apart = bool(asked and read) and all(wanted.isdisjoint(words(text)) for text in read)
        path = Path(getattr(self, "path", None) or ".")
        quoted = ".tsv" in path.name.lower() and path.is_file() and dialect_of(path, ".tsv")[1]
        is_flat = any(end in path.name.lower() for end in (".csv", ".xlsx"))
        returns = is_flat and any("\r\n" in text for text in (*asked, *read))
        many = 10 * sum(map(bool, map(signs, asked))) > len(asked)
        missing = not all(map(str.strip, (*queries.values(), *documents.values())))
        found = {"missing": missing, "itself": own, "returns": returns or quoted, "apart": apart, "signs": many}
        return ", ".join(name for name, there in found.items() if there)

    def _remembered(self, what: str, find: Callable[[], T], *, shared: bool = True) -> T:
        settings = self.model_dump_json(exclude={*RecordParams.model_fields})
        return remembered(self._files(), f"{what} of {settings}", find, shared=shared)

    def _files(self) -> list[Path]:
        places = [Path(place) for name in self.locations() if (place := getattr(self, name)) is not None]
        inside = (path for place in places if place.is_dir() for path in place.rglob("*") if path.is_file())
        return [*(place for place in places if not place.is_dir()), *sorted(inside)]

    @property
    def _is_there(self) -> bool:
        return (path := getattr(self, "path", None)) is not None and Path(path).exists()

    @may_be_absent
    def digest(self) -> str:
        """A hash of the raw content, part of ingest's key; it names weights, which earlier versions read otherwise."""
        return f"{self.open().digest()}{'-weights' if self.has_weights else ''}"


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

    @property
    def has_weights(self) -> bool:
        """By its columns."""
        if not self._is_there:
            return False
        opened = self.open()
        return "weight" in (opened.file.columns if isinstance(opened, ShapedRows) else getattr(opened, "columns", ()))

    def weights(self) -> dict[tuple[str, str], float]:
        """The weights of training pairs by query id and document id; of a repeated pair the first."""
        found: dict[tuple[str, str], float | None] = {}
        for one in self.open().judgements():
            if one.split == "train":
                found.setdefault((one.query_id, one.doc_id), one.weight)
        return {pair: weight for pair, weight in found.items() if weight is not None}

    def summary(self) -> Summary:
        """Pairs and splits by one reading of unchanged files; missing data counts as large."""
        if not self._is_there:
            return Summary(COUNTED, frozenset())
        pairs, splits, labels = self._remembered("pairs and labels", self._read_for_summary)
        return Summary(pairs, frozenset(splits), labels)

    def _read_for_summary(self) -> tuple[int, list[Split], str]:
        pairs, found = 0, set[Split]()
        source = self.open()
        names_splits = self._names_splits(source)
        for pairs, split in enumerate(self._splits(source), 1):
            found.add(split)
            if pairs >= COUNTED and (found.issuperset(HELD_OUT) or not names_splits):
                break
        labels = source.labels if isinstance(source, ExampleSource) else None
        pairs = min(pairs, COUNTED) if "train" in found else 0
        return pairs, sorted(found.intersection(HELD_OUT)), labels.said if labels else ""

    def _names_splits(self, source: Any) -> bool:
        """Whether a row may be in another split than train."""
        return not isinstance(source, ShapedRows) or "split" in source.file.columns

    def _splits(self, source: Any) -> Iterator[Split]:
        """The split of each pair that is not called wrong."""
        return (one.split for one in source.judgements() if one.relevance is None or one.relevance > 0)
