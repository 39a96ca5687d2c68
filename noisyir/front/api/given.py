"""Rows from Python as files that formats read: tables, lists, data sets and models; paths pass unchanged."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.errors import DataError

Rows: TypeAlias = Any
"""A path; a pandas or Polars DataFrame, a pyarrow.Table, a datasets.Dataset; or an iterable of dicts or of tuples."""

_DOCUMENTS = ("doc_id", "text")
_PAIRS = ("query", "document")


def as_file(rows: Rows, home: Path, name: str, columns: tuple[str, ...] = _PAIRS) -> str:
    """Return the path of rows: paths unchanged, anything else written to `given/<digest>/<name>.parquet` in `home`.

    Equal rows get the same path, so earlier results are found again.

    Args:
        columns: Columns of tuples, in order.

    Raises:
        DataError: If the rows do not form a table.
    """
    if isinstance(rows, str | os.PathLike):
        return os.fspath(rows)
    return _kept(home, f"{name}.parquet", partial(pq.write_table, as_table(rows, name, columns)))


def documents_file(corpus: Rows | None, home: Path) -> str | None:
    """Like `as_file`, for documents; also accepts a mapping of ids to texts.

    Raises:
        DataError: If texts have no ids.
    """
    if corpus is None:
        return None
    if isinstance(corpus, Mapping):
        corpus = list(corpus.items())
    if isinstance(corpus, list | tuple) and corpus and isinstance(corpus[0], str):
        raise DataError("front.corpus_without_ids")
    return as_file(corpus, home, "corpus", _DOCUMENTS)


def as_table(rows: Rows, name: str, columns: tuple[str, ...] = _PAIRS) -> pa.Table:
    """Return rows as a table without an index, in order.

    Raises:
        DataError: If there are no rows, or they do not form a table.
    """
    try:
        table = _table(rows, name, columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError("front.mixed_column", name=name, reason=str(error).splitlines()[0]) from error
    if not table.num_rows:
        raise DataError("front.no_rows", name=name)
    saved = (table.schema.metadata or {}).get(b"huggingface", b"")
    names = {b"huggingface": saved} if b"ClassLabel" in saved else None  # of labels
    plain = pa.schema([(field.name, _plain(field.type)) for field in table.schema], names)
    return table.cast(plain).combine_chunks()


def _table(rows: Rows, name: str, columns: tuple[str, ...]) -> pa.Table:
    kind = type(rows).__module__.partition(".")[0], type(rows).__name__
    match kind:
        case ("pyarrow", "Table"):
            return rows
        case ("pandas", "DataFrame"):
            return pa.Table.from_pandas(rows, preserve_index=False)
        case ("datasets", "Dataset"):
            return rows.with_format("arrow")[:]
        case ("datasets", "DatasetDict"):
            raise DataError("front.dataset_dict", name=name, rows=", ".join(rows), first=next(iter(rows)))
    if hasattr(rows, "to_arrow"):  # Polars, DuckDB
        return rows.to_arrow()
    if isinstance(rows, Iterable) and not isinstance(rows, bytes | Mapping):
        return _from_items(list(rows), name, columns)
    raise DataError("front.not_a_table", name=name, rows_type=type(rows).__name__)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Unify text types across libraries, so equal rows give equal files."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _from_items(items: list[Any], name: str, columns: tuple[str, ...]) -> pa.Table:
    """Return a table of tuples, or of dicts with possibly different keys."""
    if all(isinstance(item, Mapping) for item in items):
        keys = dict.fromkeys(key for item in items for key in item)
        return pa.table({str(key): [item.get(key) for item in items] for key in keys})
    width = len(columns)
    for number, item in enumerate(items):
        if isinstance(item, str | bytes) or not isinstance(item, list | tuple) or len(item) != width:
            raise DataError("front.bad_row", name=name, number=number, columns=", ".join(columns), item=item)
    return pa.table(dict(zip(columns, map(list, zip(*items, strict=True)), strict=True)))


def model_path(model: Any, home: Path) -> str | None:
    """Return the path or name of a model's weights unchanged; a SentenceTransformer is saved next to the rows."""
    if model is None:
        return None
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    if not callable(getattr(model, "save", None)):
        raise DataError("front.not_a_model", model_type=type(model).__name__)
    return _kept(home, "model", partial(model.save, create_model_card=False))


def _kept(home: Path, name: str, write: Callable[[str], object]) -> str:
    """Write a file or a folder to `given/<digest>/<name>` in `home`, unless it is there."""
    from noisyir.engine.provenance import files_digest

    folder = home / "given"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".writing-") as work:
        write(str(Path(work) / name))
        digest = files_digest(Path(work), [path for path in Path(work).rglob("*") if path.is_file()])
        final = folder / digest[:16] / name
        final.parent.mkdir(exist_ok=True)
        if not final.exists():
            (Path(work) / name).rename(final)
    return str(final)
