"""search: the dense ranking of each encoded query's best documents."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import listed
from noisyir.retrieval.settings import SearchParams
from noisyir.schemas.data import CORPUS
from noisyir.schemas.retrieval import DENSE_RUN, INDEX, QUERY_VECTORS

if TYPE_CHECKING:
    from noisyir.retrieval.search import Index, Rows
    from noisyir.retrieval.vectors import Vectors

_QUERIES_AT_ONCE = 4096  # as many as FAISS multiplies at once


class Shard(NamedTuple):
    """A batch of so many queries, by its number, and a part of the index: its folder, and the row that is its first."""

    queries: int
    batch: int
    part: str
    first: int


def dense_search(job: Job[SearchParams]) -> None:
    """Search each part of the index for every batch of queries, and merge what was found."""
    from noisyir.retrieval.parts import parts_of
    from noisyir.retrieval.runs import run_table
    from noisyir.retrieval.search import hits, ids_by_row, merged

    parts = parts_of(job.folder("index", "about.json").read_text())
    shards = {
        f"hits-{batch:05d}-{part:05d}": Shard(_QUERIES_AT_ONCE, batch, *parts[part])
        for batch in range(job.batches_in("query_vectors", _QUERIES_AT_ONCE))
        for part in range(len(parts))
    }
    # of an exact search, each part of the index has so many hits for each query
    found = job.spread(search_shards, shards, total=job.rows("query_vectors") * len(parts), unit="queries")
    doc_ids = ids_by_row(job.table("corpus"))
    with job.writer("dense_run") as out:
        for batch in job.batches("query_vectors", _QUERIES_AT_ONCE):
            scores, rows = _arrays(next(found))
            for path in islice(found, len(parts) - 1):
                scores, rows = merged((scores, rows), _arrays(path), job.params.top_k)
            out.append(run_table(batch["query_id"], hits(scores, rows, doc_ids)))


def search_shards(job: Job[SearchParams], shards: Sequence[Shard]) -> Iterator[pa.Table]:
    """What some parts have for some batches: a row for each query, with the scores and rows of its best documents."""
    from noisyir.retrieval.search import best, open_vectors
    from noisyir.retrieval.vectors import vectors_of

    @lru_cache(maxsize=1)  # its file is mapped, and a process maps no more than one
    def opened(part: str) -> "Index":
        return open_vectors(
            job.folder("index", part), probes=job.params.probes, breadth=job.params.breadth,
            device=job.runtime.device, threads=job.runtime.cpu_threads,
        )  # fmt: skip

    @lru_cache(maxsize=1)  # shards of one batch follow each other
    def asked(queries: int, batch: int) -> "Vectors":
        return vectors_of(next(job.batches("query_vectors", queries, batch)))

    for shard in shards:
        scores, rows = best(opened(shard.part), asked(shard.queries, shard.batch), job.params.top_k)
        rows = np.where(rows < 0, rows, rows + shard.first)
        yield pa.table({"score": listed(scores), "doc_row": listed(rows, pa.int64())})


def _arrays(shard: Path) -> "tuple[Vectors, Rows]":
    """The scores and rows of a shard (query, hit)."""
    table = pq.read_table(shard).combine_chunks()
    scores, rows = (np.asarray(pc.list_flatten(table[name])).reshape(len(table), -1) for name in table.column_names)
    return scores, rows


SEARCH = Stage(
    name="search",
    version=3,
    params=SearchParams,
    reads={"index": INDEX.all(), "query_vectors": QUERY_VECTORS.all(), "corpus": CORPUS["doc_id", "doc_row"]},
    writes={"dense_run": DENSE_RUN},
    run=dense_search,
    spreads=True,
)
