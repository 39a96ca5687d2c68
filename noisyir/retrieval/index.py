"""FAISS indexes by inner product: built from a stream of vectors, kept as one mapped file."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError
from noisyir.retrieval.texts import Vectors, check_rows, vectors_of

# Vectors that a flat index multiplies with a block of queries at once; FAISS's 1024 takes up to twice the time.
faiss.cvar.distance_compute_blas_database_bs = 4096  # type: ignore[attr-defined]

Batches = Iterable[pa.RecordBatch]
Stream = Callable[[], Batches]

_FILE, _ABOUT = "index.faiss", "about.json"
# Rows of a part: 0.8 GB of vectors of 768 dimensions.  A multiple of the vectors that FAISS multiplies at once (4096),
# so that a part's products are computed in the same blocks, to the same bits, as in an index of all vectors.
ROWS_A_PART = 262_144


def train_index(
    stream: Stream, rows: int, factory: str, *, train_rows: int, rng: np.random.Generator, threads: int, device: str
) -> faiss.Index:
    """Build an empty index, trained if necessary, on the GPU that fills it if there is one.

    `stream` gives batches (doc_row, vector) from the first row on, each time it is called; training uses `train_rows`
    of the `rows` vectors.
    """
    faiss.omp_set_num_threads(threads)
    dim = vectors_of(next(iter(stream()))).shape[1]
    with _faiss_errors(factory, rows, dim):
        index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            index = _to_gpu(index, device)
            index.train(_sample(stream, rows, dim, train_rows, rng))
    return index


def fill_index(index: faiss.Index, batches: Batches, rows: int, factory: str) -> faiss.Index:
    """Add vectors (doc_row, vector) to a trained index, up to `rows`, and return it on the CPU."""
    with _faiss_errors(factory, rows, index.d):
        _add(index, batches, rows, factory)
    return on_cpu(index)


def extend_index(earlier: Path, batches: Batches, rows: int, factory: str, *, threads: int) -> faiss.Index:
    """Add further rows to a saved index without training it again."""
    faiss.omp_set_num_threads(threads)
    return fill_index(faiss.read_index(str(earlier / _FILE)), batches, rows, factory)


def _add(index: faiss.Index, batches: Batches, rows: int, factory: str) -> None:
    if "HNSW" in factory:
        faiss.omp_set_num_threads(1)  # with more, the graph depends on which thread comes first
    _reserve(index, rows)
    for batch in batches:
        check_rows(batch, index.ntotal)
        index.add(vectors_of(batch))


def save_index(index: faiss.Index, factory: str, folder: Path) -> None:
    """Write the index and its description as JSON; equal indexes give equal bytes."""
    faiss.write_index(index, str(folder / _FILE))
    about = {"dim": index.d, "factory": factory, "metric": "inner_product", "rows": index.ntotal}
    (folder / _ABOUT).write_text(json.dumps(about))


def open_index(folder: Path, *, probes: int, breadth: int) -> faiss.Index:
    """Open a saved index, mapped from its file if its kind allows that.

    `probes` are inverted lists visited a query (IVF), `breadth` candidates kept while searching (HNSW).
    """
    index = faiss.read_index(str(folder / _FILE), faiss.IO_FLAG_MMAP_IFC)
    space = faiss.ParameterSpace()
    space.initialize(index)
    known = {space.parameter_ranges.at(i).name for i in range(space.parameter_ranges.size())}
    for name, value in (("nprobe", probes), ("efSearch", breadth)):
        if name in known:
            space.set_index_parameter(index, name, value)
    return index


def _sample(stream: Stream, rows: int, dim: int, train_rows: int, rng: np.random.Generator) -> Vectors:
    """Draw a uniform sample of the vectors, in row order; all if `train_rows` is not fewer."""
    chosen = np.sort(rng.choice(rows, size=min(train_rows, rows), replace=False))
    sample = np.empty((len(chosen), dim), np.float32)
    first = 0
    for batch in stream():
        start, stop = np.searchsorted(chosen, [first, first + batch.num_rows])
        sample[start:stop] = vectors_of(batch)[chosen[start:stop] - first]
        first += batch.num_rows
    return sample


def _reserve(index: faiss.Index, rows: int) -> None:
    """Reserve the memory of an index that keeps its codes in one array; growing would take up to three times.

    The array has no `reserve`, but it keeps its capacity when it is cut.
    """
    storage = faiss.downcast_index(getattr(index, "storage", index))
    if isinstance(storage, faiss.IndexFlatCodes):
        held = storage.codes.size()
        storage.codes.resize(rows * storage.code_size)
        storage.codes.resize(held)


@contextmanager
def _faiss_errors(factory: str, rows: int, dim: int) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = re.sub(r"^Error in .*? at \S+: (Error: '.*?' failed: )?", "", " ".join(str(error).split()))
        raise ConfigError("retrieval.bad_factory", factory=factory, rows=rows, dim=dim, reason=reason) from error


def uses_gpu(device: str) -> bool:
    """Whether inverted lists are trained and filled on a GPU."""
    return device != "cpu" and faiss.get_num_gpus() > 0


def _to_gpu(index: faiss.Index, device: str) -> faiss.Index:
    """Move the index to the GPU that `device` names, if FAISS can hold its kind there."""
    if not uses_gpu(device) or not isinstance(index, faiss.IndexIVF):
        return index
    number = int(device.partition(":")[2] or 0)
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)


def on_cpu(index: Any) -> faiss.Index:
    """Move the index to this machine's memory."""
    on_gpu = hasattr(faiss, "GpuIndex") and isinstance(index, faiss.GpuIndex)
    return faiss.index_gpu_to_cpu(index) if on_gpu else index


def build_parts(batches: Batches, rows: int, folder: Path, build: Callable[[Batches, int, Path], None]) -> None:
    """Write the index of `rows` vectors (doc_row, vector) in parts.

    `build` writes an index of n vectors, with doc_row from 0, into a folder.
    """
    parts = []
    for number, some in cut(batches, ROWS_A_PART):
        first, name = number * ROWS_A_PART, f"{number:05d}"
        (folder / name).mkdir()
        build(list(some), min(ROWS_A_PART, rows - first), folder / name)
        parts.append({"first": first, "folder": name})
    (folder / "about.json").write_text(json.dumps({"metric": "inner_product", "rows": rows, "parts": parts}))


def cut(batches: Batches, rows: int) -> Iterator[tuple[int, Batches]]:
    """Split batches into parts with doc_row from 0 each; read one part before the next."""

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
    """Return (folder, first row) of each part of an index from its about.json; one, the whole, without parts."""
    return [(part["folder"], part["first"]) for part in json.loads(about).get("parts", [])] or [("", 0)]
