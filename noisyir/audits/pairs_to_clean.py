"""The pairs that an audit is applied to, as they came: a file of pairs in any of its formats, or a data set's table."""

import csv
import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.audits.files import write_jsonl
from noisyir.audits.judgements import Pair
from noisyir.audits.texts import texts_of
from noisyir.base.errors import DataError
from noisyir.data.columns import PairColumn
from noisyir.data.containers.separated import delimiter_of
from noisyir.data.formats.pairs import PairsFile
from noisyir.data.records import RecordsByKind
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import parse_object
from noisyir.engine.tables import pair_ids

Action = Literal["keep", "weigh", "relabel", "drop"]


class Fate(NamedTuple):
    """The fate of an audited pair.

    weight: in training.  new_doc_id: of the document that the query gets instead.  flagged: whether it is called wrong.
    """

    action: Action
    new_doc_id: str | None
    weight: float
    p_clean: float
    reason: str
    flagged: bool = False


class Text(NamedTuple):
    """A document's two parts."""

    title: str
    text: str


Fates: TypeAlias = Mapping[int, Sequence[Fate | None]]  # by row, of each of its pairs; None stays as it is


class PairChanges(NamedTuple):
    """By row, of each of its pairs: what is relabelled or dropped, and the weights, where they are written.

    A row that is not in `fates` stays as it is, and one that is not in `weights` counts whole.
    """

    fates: Fates
    weights: Mapping[int, Sequence[float]] | None = None


TextById: TypeAlias = Mapping[str, Text]


class PairsToClean(ABC):
    """Pairs in rows, most often one in each; reading them twice gives the same numbers.

    name: what messages call them.  stem, suffix: of the file names of what is made of them.
    """

    name: str
    stem: str
    suffix: str

    @abstractmethod
    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """(row, pair) of every pair, row after row."""

    @abstractmethod
    def write(self, target: Path, changes: PairChanges) -> None:
        """Write all rows, changed.  DataError when a new document is not known."""


class NewColumn(NamedTuple):
    """A column that every row gets, behind the others, or in the place of the one that has its name.

    value: of the row with this number; a list only where the format can hold one.
    """

    name: str
    value: Callable[[int], float | list[float]]


class FileOfPairs(PairsToClean):
    """A file of pairs.  Rows without a fate keep their bytes, a weight put behind; columns of unknown meaning are kept.

    Where a row gets a new document, its id, title and text change.  In a file that only names documents, so do a cell
    that repeats the text, and a title.
    """

    def __init__(self, file: PairsFile) -> None:
        path = file.pairs.path
        self.file, self.name, self.stem, self.suffix = file, str(path), file.name, path.name[len(file.name) :]

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """In the order of the file; a row's number is its line, or its row in Parquet."""
        return ((pair.number, (pair.query_id, pair.doc_id)) for pair in self.file.pairs_in_order())

    def write(self, target: Path, changes: PairChanges) -> None:
        """In the format of the source.  DataError also where a column of another meaning has the name `weight`."""
        columns, fates = self.file.columns, changes.fates
        old_ids = {number: pair[1] for number, pair in self.pairs() if number in fates} if self.file.corpus else {}
        new_ids = _new_ids(fates)
        texts = self._texts(new_ids | set(old_ids.values()), new_ids)

        def edit(number: int, row: Row) -> Row | None:
            return edited(row, columns, fates[number], texts, texts.get(old_ids.get(number, "")))

        rewrite(self.file.pairs, target, fates.keys(), edit, self._weights(changes.weights))

    def _weights(self, weights: Mapping[int, Sequence[float]] | None) -> NewColumn | None:
        """A number a row; where a row lists several documents, a list in every row."""
        if weights is None:
            return None
        if "weight" not in self.file.columns and "weight" in self.file.pairs.columns:
            raise DataError("audits.column_weight_not_pairs", name=self.name)
        name = self.file.columns.get("weight", "weight")
        if any(len(of_row) > 1 for of_row in weights.values()):
            return NewColumn(name, lambda number: list(weights.get(number, [1.0])))
        return NewColumn(name, lambda number: weights.get(number, [1.0])[0])

    def _texts(self, wanted: set[str], needed: set[str]) -> TextById:
        if not needed:
            return {}
        documents = RecordsByKind(self.file).documents()
        found = {doc.doc_id: Text(doc.title, doc.text) for doc in documents if doc.doc_id in wanted}
        where = self.file.corpus.path if self.file.corpus else self.file.pairs.path
        _refuse_unknown(needed, found, str(where))
        return found


Row: TypeAlias = dict[str, Any]


class TableOfPairs(PairsToClean):
    """A data set's training pairs: a table as PAIRS, the texts from the audit, and from the corpus for new documents.

    Written as jsonl: query_id, doc_id, query, document, source where it is known, and weight where there are any.
    corpus: a stream of CORPUS (doc_id, title, text).
    """

    def __init__(self, pairs: pa.Table, audit: pa.Table, corpus: Iterable[pa.RecordBatch], dataset: str) -> None:
        self.training = pairs.filter(pc.equal(pairs["split"], "train"))
        self.audit, self.corpus, self.dataset = audit, corpus, dataset
        self.name, self.stem, self.suffix = f"the training pairs of {dataset}", dataset, ".jsonl"

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """In the order of the table."""
        return enumerate(pair_ids(self.training))

    def write(self, target: Path, changes: PairChanges) -> None:
        """As jsonl.  DataError also for a pair that was not audited, for its text is not known."""
        write_jsonl(self._rows(*changes), target)

    def _rows(self, fates: Fates, weights: Mapping[int, Sequence[float]] | None) -> Iterator[Row]:
        columns = ("query_id", "doc_id", "query", "document")
        audited = zip(*(self.audit[name].to_pylist() for name in columns), strict=True)
        texts = {(query_id, doc_id): parts for query_id, doc_id, *parts in audited}
        documents = self._documents(_new_ids(fates))
        sources = self.training["source"].to_pylist()
        for number, pair in self.pairs():
            if pair not in texts:
                raise DataError("audits.query_document_not_audit", name=self.name, pair=pair[0], pair_2=pair[1])
            (query_id, doc_id), (query, document) = pair, texts[pair]
            if fate := fates[number][0] if number in fates else None:
                if fate.new_doc_id is None:
                    continue
                doc_id, document = fate.new_doc_id, documents[fate.new_doc_id]
            known: Row = {"source": sources[number]} if sources[number] is not None else {}
            known |= {"weight": weights[number][0]} if weights is not None else {}
            yield {"query_id": query_id, "doc_id": doc_id, "query": query, "document": document} | known

    def _documents(self, wanted: set[str]) -> dict[str, str]:
        found = texts_of(self.corpus, wanted) if wanted else {}
        _refuse_unknown(wanted, found, f"the corpus of {self.dataset}")
        return found


def edited(
    row: Row, columns: Mapping[PairColumn, str], fates: Sequence[Fate | None], texts: TextById, old: Text | None
) -> Row | None:
    """The row after its pairs met their fates; None when none of them is left.

    Of a row that lists several documents, those dropped leave the lists.  old: the text of the row's document where
    the file only names it; cells of no known meaning that repeat it get the new one's.
    """
    kept = [(number, fate) for number, fate in enumerate(fates) if fate is None or fate.new_doc_id is not None]
    if not kept:
        return None
    of_document = {columns[name]: name for name in _PARTS if name in columns}
    listed = any(isinstance(row.get(column), list) for column in of_document)
    new = dict(row)
    for column, name in of_document.items():
        value = row.get(column)
        if isinstance(value, list):
            new[column] = [_part(name, value[number] if value else None, fate, texts) for number, fate in kept]
        elif not listed:  # what the documents of a list share stays
            part = _part(name, value, kept[0][1], texts)
            new |= {column: part} if part or column in row else {}  # no empty text in a row that has no such field
    fate = kept[0][1]
    if old is not None and not listed and fate is not None and fate.new_doc_id is not None:
        free = new.keys() - columns.values()
        new |= {column: _copied(column, new[column], old, texts[fate.new_doc_id]) for column in free}
    return new


_PARTS: tuple[PairColumn, ...] = ("doc_id", "title", "document", "weight")


def _part(name: PairColumn, value: Any, fate: Fate | None, texts: TextById) -> Any:
    """The new document's part in place of `value`; an id stays a number where it was one."""
    if fate is None or fate.new_doc_id is None or name == "weight":
        return value
    if name == "doc_id":
        return _like(value, fate.new_doc_id)
    new = texts[fate.new_doc_id]
    return new.title if name == "title" else new.text


def _like(value: Any, name: str) -> int | str:
    return int(name) if isinstance(value, int) and name.isdecimal() and str(int(name)) == name else name


def _copied(column: str, value: Any, old: Text, new: Text) -> Any:
    if old.text and value == old.text:
        return new.text
    return new.title if old.title and value == old.title and column.lower() == "title" else value


def _new_ids(fates: Fates) -> set[str]:
    return {fate.new_doc_id for row in fates.values() for fate in row if fate and fate.new_doc_id}


def _refuse_unknown(wanted: set[str], found: Iterable[str], where: str) -> None:
    if missing := sorted(wanted.difference(found)):
        raise DataError(
            "audits.replacements_not_example_apply", n_missing=len(missing), where=where, missing=missing[0]
        )


Edit: TypeAlias = Callable[[int, Row], Row | None]  # of a row and its number, as RowFile counts; None leaves it out

_BATCH_ROWS = 65536  # and so the rows of a row group


def rewrite(file: RowFile, target: Path, touched: Collection[int], edit: Edit, column: NewColumn | None = None) -> None:
    """Write `file` to `target` in its own format; only the rows numbered `touched` are edited; all get the column."""
    if file.suffix == ".parquet":
        _rewrite_parquet(file, target, touched, edit, column)
        return
    records = _json_records(file) if file.suffix == ".jsonl" else _separated_records(file)
    with _opened(target, file.path) as out:
        for record in records:
            out.write(_written(record, touched, edit, column))


def _written(record: "_Json | _Separated", touched: Collection[int], edit: Edit, column: NewColumn | None) -> bytes:
    """The record as it goes out; empty where it is left out."""
    raw = record.raw if record.raw.endswith(b"\n") else record.raw + b"\n"
    if record.is_blank or (record.number not in touched and column is None):
        return raw
    if record.number not in touched and column is not None and not record.has(column.name):
        return record.followed_by(raw, column)
    row = record.read() if record.number not in touched else edit(record.number, record.read())
    if row is None:
        return b""
    if column is not None:
        row[column.name] = record.added(column)
    return record.written(row).encode()


class _Json(NamedTuple):
    """A line of jsonl."""

    number: int
    raw: bytes
    place: str

    @property
    def is_blank(self) -> bool:
        return not self.raw.strip()

    def has(self, name: str) -> bool:
        return json.dumps(name).encode() in self.raw

    def added(self, column: NewColumn) -> float | list[float]:
        return column.value(self.number)

    def followed_by(self, raw: bytes, column: NewColumn) -> bytes:
        """The object with one more field at its end."""
        head, brace, end = raw.rpartition(b"}")
        return head + f", {json.dumps(column.name)}: {json.dumps(self.added(column))}".encode() + brace + end

    def read(self) -> Row:
        return parse_object(self.raw.decode("utf-8-sig"), f"{self.place} {self.number}")

    def written(self, row: Row) -> str:
        return json.dumps(row, ensure_ascii=False) + "\n"


class _Separated(NamedTuple):
    """A record of csv or tsv with all its lines, and how it is written."""

    number: int
    raw: bytes
    columns: Sequence[str]
    cells: Sequence[str]
    joined: Callable[[Iterable[str]], str]
    separator: str
    is_header: bool

    @property
    def is_blank(self) -> bool:
        return not self.cells

    def has(self, name: str) -> bool:
        return name in self.columns

    def added(self, column: NewColumn) -> str:
        """A cell; the column's name in the header."""
        return column.name if self.is_header else str(column.value(self.number))

    def followed_by(self, raw: bytes, column: NewColumn) -> bytes:
        """The record with one more cell at its end."""
        line = raw.rstrip(b"\r\n")
        return line + f"{self.separator}{self.added(column)}".encode() + raw[len(line) :]

    def read(self) -> Row:
        return dict(zip(self.columns, self.cells, strict=True))

    def written(self, row: Row) -> str:
        return self.joined(row.values()) + ("\r\n" if self.raw.endswith(b"\r\n") else "\n")


def _json_records(file: RowFile) -> Iterator[_Json]:
    return (_Json(number, raw, file.place) for number, raw in _raw_lines(file.path))


def _separated_records(file: RowFile) -> Iterator[_Separated]:
    """The header, blank lines and every record; the lines are split as RowFile splits them."""
    seen: list[bytes] = []

    def lines() -> Iterator[str]:
        for number, raw in _raw_lines(file.path):
            seen.append(raw)
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n") + "\n"

    if file.suffix == ".csv":
        separator = delimiter_of(file.path)
        records, joined = csv.reader(lines(), delimiter=separator, strict=True), _as_csv(separator)
    else:
        separator, joined = "\t", _as_tsv
        records = csv.reader(lines(), delimiter=separator, quoting=csv.QUOTE_NONE)
    line, header = 1, True
    for cells in records:
        yield _Separated(line, b"".join(seen), file.columns, cells, joined, separator, header and bool(cells))
        header = header and not cells
        line += len(seen)
        seen.clear()


def _as_csv(separator: str) -> Callable[[Iterable[str]], str]:
    def joined(cells: Iterable[str]) -> str:
        out = StringIO()
        csv.writer(out, delimiter=separator, lineterminator="").writerow(cells)
        return out.getvalue()

    return joined


def _as_tsv(cells: Iterable[str]) -> str:
    """A tsv has no quotes, so that a tab or line end within a cell becomes a space."""
    return "\t".join(" ".join(cell.replace("\t", "\n").splitlines()) for cell in cells)


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as plain:
        yield from enumerate(gzip.GzipFile(fileobj=plain) if _is_zipped(path) else plain, 1)


@contextmanager
def _opened(target: Path, like: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A new binary file, zipped where `like` is; the same rows give the same bytes, for the zip holds no time."""
    with target.open("xb") as plain:
        if _is_zipped(like):
            with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                yield packed
        else:
            yield plain


def _is_zipped(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _rewrite_parquet(
    file: RowFile, target: Path, touched: Collection[int], edit: Edit, column: NewColumn | None
) -> None:
    source = pq.ParquetFile(file.path)
    schema = _with_column(source.schema_arrow.empty_table(), 1, column).schema
    with pq.ParquetWriter(target, schema) as out:
        first = 1
        for batch in source.iter_batches(batch_size=_BATCH_ROWS):
            table = _with_column(pa.Table.from_batches([batch]), first, column)
            out.write_table(_edited_batch(table, first, touched, edit).cast(schema))
            first += batch.num_rows


def _with_column(table: pa.Table, first: int, column: NewColumn | None) -> pa.Table:
    """The rows, numbered from `first`, with the column."""
    if column is None:
        return table
    kind = pa.list_(pa.float64()) if isinstance(column.value(0), list) else pa.float64()
    values = pa.array([column.value(first + row) for row in range(table.num_rows)], kind)
    if column.name in table.column_names:
        return table.set_column(table.column_names.index(column.name), column.name, values)
    return table.append_column(column.name, values)


def _edited_batch(table: pa.Table, first: int, touched: Collection[int], edit: Edit) -> pa.Table:
    here = [row for row in range(table.num_rows) if first + row in touched]
    if not here:
        return table
    before = table.take(here).to_pylist()
    after = [edit(first + row, values) for row, values in zip(here, before, strict=True)]
    changes = {row: new for row, new in zip(here, after, strict=True) if new is not None}
    old = dict(zip(here, before, strict=True))
    for place, field in enumerate(table.schema):
        name = field.name
        if any(old[row][name] != new[name] for row, new in changes.items()):
            values = table[name].to_pylist()
            for row, new in changes.items():
                values[row] = new[name]
            table = table.set_column(place, field, pa.array(values, field.type))
    gone = set(here) - changes.keys()
    return table.take([row for row in range(table.num_rows) if row not in gone]) if gone else table
