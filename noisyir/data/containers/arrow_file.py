"""Arrow's own files, `.arrow` and `.feather`: as a file or as a stream.  Nothing is read but the batch in hand."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisyir.base.errors import DataError
from noisyir.data.containers import Check, Row, accept
from noisyir.data.containers.arrow_rows import as_table, numbered
from noisyir.engine.outside_errors import one_line

_FILE = b"ARROW1"


@dataclass(frozen=True)
class ArrowFile:
    """A table of rows; what `datasets` saves is a stream of them."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The names in the schema."""
        with _opened(path) as (schema, _):
            return tuple(schema.names)

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The rows, numbered from 1."""
        with _opened(path) as (_, batches):
            yield from numbered(path, (batch.select(list(columns)) for batch in batches))

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """As a file that can be mapped into memory."""
        table = as_table(rows)
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)


def container(suffix: str) -> ArrowFile:
    """Arrow."""
    return ArrowFile()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    try:
        with pa.memory_map(str(path)) as source:
            if source.read(len(_FILE)) == _FILE:
                file = pa.ipc.open_file(source)
                yield file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
            else:
                source.seek(0)
                stream = pa.ipc.open_stream(source)
                yield stream.schema, iter(stream)
    except (pa.ArrowException, OSError) as error:
        raise DataError("data.not_arrow_damaged_get", path=path, one_line=one_line(error)) from error
