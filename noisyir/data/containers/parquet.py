"""Parquet.  Read batch by batch; no other table format is read here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.data.containers import Row
from noisyir.data.containers.arrow_rows import as_table, numbered
from noisyir.errors import DataError

_BATCH_ROWS = 4096


@dataclass(frozen=True)
class Parquet:
    """A table of rows."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The names in the schema."""
        return tuple(_opened(path).schema_arrow.names)

    def rows(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        """The rows, numbered from 1."""
        return numbered(path, _opened(path).iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)))

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """As one table."""
        pq.write_table(as_table(rows), path)


def container(suffix: str) -> Parquet:
    """Parquet."""
    return Parquet()


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not Parquet, or damaged: {error}") from error
