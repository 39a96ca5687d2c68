"""An exact index in parts: folders of some rows each, which one process searches after another, or many at once."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

# Rows of a part: 0.8 GB of vectors of 768 dimensions.  A multiple of the vectors that FAISS multiplies at once (4096),
# so that a part's products are computed in the very blocks of an index of all vectors, and have their bits.
ROWS_A_PART = 262_144

Batches = Iterable[pa.RecordBatch]


def build_parts(batches: Batches, rows: int, folder: Path, build: Callable[[Batches, int, Path], None]) -> None:
    """Write the index of `rows` vectors, given as batches (doc_row, vector), part by part.

    build: writes that of so many vectors, whose doc_row count from 0, into a folder.
    """
    parts = []
    for number, some in cut(batches, ROWS_A_PART):
        first, name = number * ROWS_A_PART, f"{number:05d}"
        (folder / name).mkdir()
        build(list(some), min(ROWS_A_PART, rows - first), folder / name)
        parts.append({"first": first, "folder": name})
    (folder / "about.json").write_text(json.dumps({"metric": "inner_product", "rows": rows, "parts": parts}))


def cut(batches: Batches, rows: int) -> Iterator[tuple[int, Batches]]:
    """Batches by part, each part's doc_row counting from 0; read one part before the next."""

    def pieces() -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        for batch in batches:
            while batch.num_rows:
                number, inside = divmod(first, rows)
                piece = batch.slice(0, rows - inside)
                yield number, _counting_from(piece, number * rows)
                first, batch = first + piece.num_rows, batch.slice(piece.num_rows)

    for number, some in groupby(pieces(), itemgetter(0)):
        yield number, (piece for _, piece in some)


def _counting_from(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    lowered = pc.subtract(batch["doc_row"], pa.scalar(first, batch["doc_row"].type))
    return pa.record_batch({"doc_row": lowered, "vector": batch["vector"]})


def parts_of(about: str) -> list[tuple[str, int]]:
    """(folder, first row) of each part of an index, by its about.json; one part, the whole, where there are none."""
    return [(part["folder"], part["first"]) for part in json.loads(about).get("parts", [])] or [("", 0)]
