"""Parquet parts: written with pinned settings so that equal rows are equal bytes, read as projections and streams."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.base.artifact import PAIR_KEY, Artifact
from noisyir.base.errors import SchemaError, StoreError
from noisyir.engine.remote.copies import CopiedPart

ROW_GROUP = 65536
FLOAT = pa.float32()


class TableWriter:
    """Writes one artifact's rows part by part, and checks each part against the contract."""

    def __init__(self, artifact: Artifact, folder: Path, writer: str) -> None:
        self.artifact, self.folder, self.writer = artifact, folder, writer
        self.rows = 0
        self._keys: list[pa.Table] = []
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, table: pa.Table) -> None:
        """Write one part."""
        table = conform(self.artifact, table, self.writer)
        write_part(table, self.folder / f"part-{len(self._keys):05d}.parquet")
        self._keys.append(table.select(list(self.artifact.key)))
        self.rows += table.num_rows

    def adopt(self, part: Path) -> None:
        """Take a part that `write_part` made earlier on the same disk: a shard."""
        table = pq.read_table(part, columns=list(self.artifact.key))
        (self.folder / f"part-{len(self._keys):05d}.parquet").hardlink_to(part)  # which stays if the run dies now
        self._keys.append(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """Check the key over all parts; an artifact without rows still gets one part, for its schema."""
        if not self._keys:
            self.append(self.artifact.schema.empty_table())
        if self.artifact.key and self.rows > 1:
            _check_key(self.artifact, pa.concat_tables(self._keys))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self.close()


def _check_key(artifact: Artifact, table: pa.Table) -> None:
    """Refuse a table in which two rows have the same key; the error shows one such key."""
    counts = table.group_by(list(artifact.key)).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    if repeated.num_rows:
        example = {name: repeated[name][0].as_py() for name in artifact.key}
        raise SchemaError(
            "engine.keys_occur_more_once", artifact=artifact.name, num_rows=repeated.num_rows, example=example
        )


def write_part(table: pa.Table, path: Path) -> None:
    """Write Parquet with the project's pinned settings."""
    pq.write_table(
        table, path, compression="zstd", row_group_size=ROW_GROUP, use_dictionary=True, version="2.6",
        write_page_checksum=True,
    )  # fmt: skip


def conform(artifact: Artifact, table: pa.Table, writer: str) -> pa.Table:
    """Return the table with the contract's columns in its order and types.

    Raises:
        SchemaError: If that fails.
    """
    if missing := [name for name in artifact.columns if name not in table.column_names]:
        raise SchemaError(
            "engine.lacks_found_rebuild_noisyir",
            artifact=artifact.name,
            version=artifact.version,
            missing=missing,
            column_names=table.column_names,
            writer=writer,
        )
    columns, fields = [], []
    for name, kind in artifact.columns.items():
        column, nullable = table[name], name in artifact.nullable
        if column.null_count and not nullable:
            raise SchemaError("engine.values_null", artifact=artifact.name, name=name, null_count=column.null_count)
        if not pa.types.is_fixed_size_list(column.type):  # a vector's length and precision are the model's choice
            with SchemaError.wrapping(
                "engine.not", pa.ArrowInvalid, pa.ArrowNotImplementedError, artifact=artifact.name, name=name, kind=kind
            ):
                column = column.cast(kind)
        _refuse_nan(artifact, name, column)
        columns.append(column)
        fields.append(pa.field(name, column.type, nullable))
    return pa.table(columns, schema=pa.schema(fields))


def _refuse_nan(artifact: Artifact, name: str, column: pa.ChunkedArray) -> None:
    values = column.combine_chunks()
    if pa.types.is_fixed_size_list(values.type):
        values = values.flatten()
    # of no values, or only nulls, all are finite
    if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise SchemaError("engine.holds_nan_infinite_values", artifact=artifact.name, name=name)


def listed(values: npt.NDArray[Any], kind: pa.DataType = FLOAT) -> pa.ListArray:
    """Return the rows of a matrix as lists."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(offsets, pa.array(values.ravel(), kind))


def matrix(lists: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return lists of one length as rows of a matrix, the inverse of `listed`; no rows if there is no list."""
    return np.asarray(pc.list_flatten(lists).to_numpy(), np.float64).reshape(len(lists), -1 if len(lists) else 0)


def table_of(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return a table of rows, each with its values in the order of the schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema)


def pair_ids(table: pa.Table) -> list[tuple[str, str]]:
    """Return (query_id, doc_id) of every row."""
    return list(zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True))


def semi_join(pairs: pa.Table, others: pa.Table) -> npt.NDArray[np.bool_]:
    """Return, for each row of `pairs`, whether `others` has its (query_id, doc_id)."""
    return np.asarray(pc.is_valid(rows_in(others, pairs, PAIR_KEY)).to_numpy(zero_copy_only=False))


def rows_in(right: pa.Table, left: pa.Table, key: Sequence[str]) -> pa.Int64Array:
    """Return the number, by row of `left`, of the first row of `right` with its key; null if there is none."""
    if len(key) == 1:
        return pc.index_in(left[key[0]], value_set=right[key[0]].combine_chunks()).cast(pa.int64()).combine_chunks()
    names = list(key)
    numbered = right.select(names).append_column("found", pa.array(np.arange(len(right))))
    first = numbered.group_by(names, use_threads=False).aggregate([("found", "min")])
    asked = left.select(names).append_column("order", pa.array(np.arange(len(left))))
    return asked.join(first, names, join_type="left outer").sort_by("order")["found_min"].combine_chunks()


def aligned(left: pa.Table, right: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return, for each row of `left`, the row of `right` with its key; null if there is none."""
    return right.take(rows_in(right, left, key)).combine_chunks()


def beside(left: pa.Table, right: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return `left` with the other columns of `right`; null if `right` does not have a row's key."""
    found = aligned(left, right, key)
    return with_values(left, **{name: found[name] for name in found.column_names if name not in key})


def with_values(table: pa.Table, /, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the table with these columns, each in place of its namesake, or else at the end."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.append_column(name, values) if place < 0 else table.set_column(place, name, values)
    return table


def read_parts(fs: object, paths: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
    """Return all rows of these columns (None: every column), in order."""
    return pa.concat_tables([_open(fs, path).read(columns=columns and list(columns)) for path in paths])


def stream_parts(
    fs: object, paths: Sequence[str], columns: Sequence[str] | None, rows: int, skip: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `rows` rows, in order, after the first `skip`; memory does not grow with the table."""
    for path in paths:
        if skip and skip >= (whole := _batches(fs, path, rows)):
            skip -= whole
            continue
        file = _open(fs, path)
        groups, passed = _groups_from(file.metadata, rows, skip)
        batches = file.iter_batches(batch_size=rows, row_groups=groups, columns=columns and list(columns))
        yield from islice(batches, skip - passed, None)
        skip = 0


def batches_in(fs: object, paths: Sequence[str], rows: int) -> int:
    """Return how many batches `stream_parts` yields: no batch has rows of two parts."""
    return sum(_batches(fs, path, rows) for path in paths)


def _batches(fs: object, path: str, rows: int) -> int:
    """Return the number of batches from the end of the file only: a file in an object store is not copied for it."""
    return -(-int(_parquet(path, fs).metadata.num_rows) // rows)


def _groups_from(metadata: pq.FileMetaData, rows: int, skip: int) -> tuple[list[int], int]:
    """Return the row groups to read for batches from number `skip` on, and the number of batches before them."""
    begins, start, passed = 0, 0, 0
    for group in range(metadata.num_row_groups):
        if begins % rows == 0 and begins <= skip * rows:
            start, passed = group, begins // rows
        begins += metadata.row_group(group).num_rows
    return list(range(start, metadata.num_row_groups)), passed


def regrouped(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of `rows` rows, the last perhaps smaller, none empty."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= rows:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, rows)
            waiting, count = [whole.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(waiting)


def _open(fs: object, path: str) -> pq.ParquetFile:
    if not isinstance(path, CopiedPart):
        return _parquet(path, fs)
    with path.copied() as folder:
        return _parquet(str(folder / path.rpartition("/")[2]), None)


def _parquet(path: str, fs: object) -> pq.ParquetFile:
    with StoreError.wrapping("engine.damaged_artifact_find_all", pa.ArrowInvalid, OSError, path=path):
        return pq.ParquetFile(path, filesystem=fs, page_checksum_verification=True)
