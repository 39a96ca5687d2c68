"""index, extend_index: FAISS's index of the documents' vectors, and a refreshed corpus's."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from noisyir.data.artifacts import ROW_ORIGINS
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval import artifacts as retrieval
from noisyir.retrieval.settings import ExtendIndexParams, IndexParams

if TYPE_CHECKING:
    import faiss

_VECTORS_AT_ONCE = 16384
_BATCHES_A_PIECE = 16  # of inverted lists: 0.8 GB of vectors of 768 dimensions

P = TypeVar("P", bound=IndexParams)


class Piece(NamedTuple):
    """Vectors to code: the trained index, and `batches` batches of `rows` rows from batch `first` on."""

    trained: str
    rows: int
    first: int
    batches: int


def build(job: Job[P]) -> None:
    """Build the index that the settings describe, from a stream of vectors."""
    from noisyir.retrieval.index import ROWS_A_PART, build_parts

    def read() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(job.batches("doc_vectors", _VECTORS_AT_ONCE), 1):
            yield batch
            job.progress(min(number * _VECTORS_AT_ONCE, rows), rows, "vectors")

    rows, folder = job.rows("doc_vectors"), job.new_folder("index")
    if job.params.factory == "Flat" and rows > ROWS_A_PART:
        return build_parts(read(), rows, folder, lambda part, *where: _build(job, lambda: part, *where))
    if rows > _BATCHES_A_PIECE * _VECTORS_AT_ONCE and _has_pieces(job, next(read())):
        return _build_in_pieces(job, rows, folder)
    _build(job, read, rows, folder)


def _build(job: Job[P], read: Callable[[], Iterable[pa.RecordBatch]], rows: int, folder: Path) -> None:
    """Index the vectors, which are read twice if it is trained."""
    from noisyir.retrieval.index import fill_index, save_index

    index = fill_index(_trained(job, read, rows), read(), rows, job.params.factory)
    save_index(index, job.params.factory, folder)


def _trained(job: Job[P], read: Callable[[], Iterable[pa.RecordBatch]], rows: int) -> "faiss.Index":
    from noisyir.retrieval.index import train_index

    return train_index(
        read,
        rows,
        job.params.factory,
        train_rows=job.params.train_rows,
        rng=job.rng("training sample"),
        threads=job.runtime.cpu_threads,
        device=job.runtime.device,
    )


def _has_pieces(job: Job[P], batch: pa.RecordBatch) -> bool:
    """Whether the index is made of codes, and no GPU here makes them faster than pieces."""
    from noisyir.retrieval.index import uses_gpu
    from noisyir.retrieval.inverted_lists import can_be_coded
    from noisyir.retrieval.texts import vectors_of

    return not uses_gpu(job.runtime.device) and can_be_coded(job.params.factory, vectors_of(batch).shape[1])


def _build_in_pieces(job: Job[P], rows: int, folder: Path) -> None:
    """Train, code the vectors in pieces and join the codes; a killed build resumes after its pieces."""
    from noisyir.retrieval.index import save_index
    from noisyir.retrieval.inverted_lists import put_together, unpacked

    (trained,) = job.spread(train_lists, {"trained": None}, total=1, unit="indexes")
    firsts = range(0, job.batches_in("doc_vectors", _VECTORS_AT_ONCE), _BATCHES_A_PIECE)
    pieces = [Piece(trained.name, _VECTORS_AT_ONCE, first, _BATCHES_A_PIECE) for first in firsts]
    codes = [*job.spread(code_vectors, {f"codes-{piece.first:05d}": piece for piece in pieces}, total=rows)]
    save_index(put_together(unpacked(trained), codes), job.params.factory, folder)


def train_lists(job: Job[P], _: Sequence[None]) -> Iterator[pa.Table]:
    """Yield the trained index without vectors."""
    from noisyir.retrieval.index import on_cpu
    from noisyir.retrieval.inverted_lists import packed

    index = _trained(job, lambda: job.batches("doc_vectors", _VECTORS_AT_ONCE), job.rows("doc_vectors"))
    yield packed(on_cpu(index))


def code_vectors(job: Job[P], pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    """Yield the codes of some pieces, in their order."""
    import faiss

    from noisyir.retrieval.inverted_lists import coded, unpacked

    faiss.omp_set_num_threads(job.runtime.cpu_threads)
    index = unpacked(job.shards.fetch(pieces[0].trained))
    for piece in pieces:
        batches = job.batches("doc_vectors", piece.rows, piece.first)
        yield coded(index, islice(batches, piece.batches), piece.first * piece.rows)


def extend(job: Job[ExtendIndexParams]) -> None:
    """Add the new vectors to a copy; rebuild if an earlier row changed or `rebuild` is set."""
    from noisyir.retrieval.index import ROWS_A_PART

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
    from noisyir.retrieval.index import extend_index, save_index

    index = extend_index(earlier, batches, rows, job.params.factory, threads=job.runtime.cpu_threads)
    save_index(index, job.params.factory, folder)


def _behind(job: Job[ExtendIndexParams], first: int) -> Iterator[pa.RecordBatch]:
    """Yield the vectors from row `first` on."""
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
    spreads=True,
)

EXTEND_INDEX = Stage(
    name="extend_index",
    version=1,
    params=ExtendIndexParams,
    reads={
        "doc_vectors": retrieval.DOC_VECTORS.all(),
        "row_origins": ROW_ORIGINS.all(),
        "earlier": retrieval.INDEX.all(),
    },
    writes={"index": retrieval.INDEX},
    run=extend,
    seeded=True,
    pool="gpu",
    spreads=True,
)
