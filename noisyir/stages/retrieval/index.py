"""index, extend_index: the documents' vectors as an index, FAISS's or our own, and that of a refreshed corpus."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from noisyir.costs.retrieval import indexing
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.settings import ExtendIndexParams, IndexParams
from noisyir.schemas import retrieval

_VECTORS_AT_ONCE = 16384

P = TypeVar("P", bound=IndexParams)


def build(job: Job[P]) -> None:
    """Build the index that the settings describe, from a stream of vectors."""
    from noisyir.retrieval.parts import ROWS_A_PART, build_parts

    def read() -> Iterator[pa.RecordBatch]:
        return job.batches("doc_vectors", _VECTORS_AT_ONCE)

    rows, folder = job.rows("doc_vectors"), job.new_folder("index")
    if job.params.factory == "Flat" and rows > ROWS_A_PART:
        return build_parts(read(), rows, folder, lambda part, *where: _build(job, lambda: part, *where))
    _build(job, read, rows, folder)


def _build(job: Job[P], read: Callable[[], Iterable[pa.RecordBatch]], rows: int, folder: Path) -> None:
    """The index of so many vectors, which are read twice where it is trained."""
    if job.params.engine == "torch":
        from noisyir.retrieval.exact import build_exact

        return build_exact(read(), rows, folder)
    from noisyir.retrieval.index import build_index, save_index

    index = build_index(
        read,
        rows,
        job.params.factory,
        train_rows=job.params.train_rows,
        rng=job.rng("training sample"),
        threads=job.runtime.cpu_threads,
        device=job.runtime.device,
    )
    save_index(index, job.params.factory, folder)


def extend(job: Job[ExtendIndexParams]) -> None:
    """Add the new vectors to a copy; where an earlier row changed, or when asked to, build from all vectors."""
    from noisyir.retrieval.parts import ROWS_A_PART

    origins = job.table("row_origins")
    kept, rows = len(origins) - origins["earlier_row"].null_count, job.rows("doc_vectors")
    before = json.loads((job.folder("earlier") / "about.json").read_text())["rows"]
    whole = kept == before and not origins["earlier_row"].slice(0, kept).null_count  # as rows keep their order
    changed = None if whole else f"{before - kept} of {before} earlier documents were replaced or removed"
    if job.params.factory == "Flat" and rows > ROWS_A_PART:
        changed = "an exact index in parts is written in no more time than it is copied"
    reason = "asked for" if job.params.rebuild else changed
    job.note("index", {"added": 0 if reason else rows - kept, "kept": 0 if reason else kept, "built_anew": reason})
    if reason:
        return build(job)
    batches, folder, earlier = _behind(job, kept), job.new_folder("index"), job.folder("earlier")
    if job.params.engine == "torch":
        from noisyir.retrieval.exact import build_exact

        return build_exact(batches, rows, folder, earlier)
    from noisyir.retrieval.index import extend_index, save_index

    index = extend_index(earlier, batches, rows, job.params.factory, threads=job.runtime.cpu_threads)
    save_index(index, job.params.factory, folder)


def _behind(job: Job[ExtendIndexParams], first: int) -> Iterator[pa.RecordBatch]:
    """The vectors from row `first` on."""
    for batch in job.batches("doc_vectors", _VECTORS_AT_ONCE):
        if first < batch.num_rows:
            yield batch.slice(first)
        first = max(0, first - batch.num_rows)


INDEX = Stage(
    name="index",
    version=1,
    params=IndexParams,
    reads={"doc_vectors": retrieval.DOC_VECTORS.all()},
    writes={"index": retrieval.INDEX},
    run=build,
    seeded=True,
    pool="gpu",
    cost=indexing,
)

EXTEND_INDEX = Stage(
    name="extend_index",
    version=1,
    params=ExtendIndexParams,
    reads={
        "doc_vectors": retrieval.DOC_VECTORS.all(),
        "row_origins": retrieval.ROW_ORIGINS.all(),
        "earlier": retrieval.INDEX.all(),
    },
    writes={"index": retrieval.INDEX},
    run=extend,
    seeded=True,
    pool="gpu",
    cost=indexing,
)
