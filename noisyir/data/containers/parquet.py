"""Parquet.  Read batch by batch; no other table format is read here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.errors import DataError
from noisyir.data.containers import Check, Row, accept
from noisyir.data.containers.arrow_rows import as_table, numbered
from noisyir.data.limits import LINE
from noisyir.engine.outside_errors import one_line

_BATCH_ROWS = 4096


@dataclass(frozen=True)
class Parquet:
    """A table of rows."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The names in the schema."""
        return tuple(_parquet_opened(path).schema_arrow.names)

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The rows, numbered from 1."""
        return numbered(path, _parquet_opened(path).iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)))

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """As one table."""
        pq.write_table(as_table(rows), path)


def container(suffix: str) -> Parquet:
    """Parquet."""
    return Parquet()


def _parquet_opened(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError("data.not_parquet_damaged_get", path=path, one_line=one_line(error)) from error
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        largest = max((group.column(place).total_uncompressed_size for place in range(group.num_columns)), default=0)
        if largest > LINE.most * max(1, group.num_rows):
            raise DataError("data.values_more_bytes", path=path, most=LINE.most, remedy=LINE.remedy)
    return file
