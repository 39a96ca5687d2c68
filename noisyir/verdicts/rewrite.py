"""Write a file of rows again with some rows edited or left out; all others are copied as they stand."""

import csv
import gzip
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.data.row_files import RowFile
from noisyir.data.text_files import parse_object

Row: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[int, Row], Row | None]  # of a row and its number, as RowFile counts; None leaves it out

_BATCH_ROWS = 65536  # and so the rows of a row group


def rewrite(file: RowFile, target: Path, touched: Collection[int], edit: Edit) -> None:
    """Write `file` to `target` in its own format; only the rows numbered `touched` are edited."""
    if file.suffix == ".parquet":
        _rewrite_parquet(file, target, touched, edit)
        return
    records = _json_records(file) if file.suffix == ".jsonl" else _separated_records(file)
    with _opened(target, file.path) as out:
        for record in records:
            if record.number not in touched:
                out.write(record.raw if record.raw.endswith(b"\n") else record.raw + b"\n")
            elif (row := edit(record.number, record.read())) is not None:
                out.write(record.written(row).encode())


class _Json(NamedTuple):
    """A line of jsonl."""

    number: int
    raw: bytes
    place: str

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
        records, joined = csv.reader(lines(), strict=True), _as_csv
    else:
        records, joined = csv.reader(lines(), delimiter="\t", quoting=csv.QUOTE_NONE), _as_tsv
    line = 1
    for cells in records:
        yield _Separated(line, b"".join(seen), file.columns, cells, joined)
        line += len(seen)
        seen.clear()


def _as_csv(cells: Iterable[str]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


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


def _rewrite_parquet(file: RowFile, target: Path, touched: Collection[int], edit: Edit) -> None:
    source = pq.ParquetFile(file.path)
    with pq.ParquetWriter(target, source.schema_arrow) as out:
        first = 1
        for batch in source.iter_batches(batch_size=_BATCH_ROWS):
            out.write_table(_edited_batch(pa.Table.from_batches([batch]), first, touched, edit))
            first += batch.num_rows


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
