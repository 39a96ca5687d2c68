"""encode: a vector for every document and chosen query; encode_new: of a refreshed corpus, where texts are new."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.costs.retrieval import encoding
from noisyir.engine.stage import Job, SplitCounts, Stage
from noisyir.engine.tables import regrouped
from noisyir.errors import StoreError
from noisyir.retrieval.settings import EncodeParams
from noisyir.schemas.artifact import Artifact
from noisyir.schemas.data import CORPUS, QUERIES
from noisyir.schemas.retrieval import DOC_VECTORS, QUERY_VECTORS, ROW_ORIGINS
from noisyir.schemas.training import MODEL

if TYPE_CHECKING:
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.tokens import Side
    from noisyir.retrieval.encode import Shard

_VECTORS = {"passage": DOC_VECTORS, "query": QUERY_VECTORS}


def encode(job: Job[EncodeParams]) -> None:
    """Encode in shards kept in `job.work`: a killed build goes on behind its last finished shard."""
    rows, queries = job.params.shard_rows, _queries(job)
    shards: dict[Side, int] = {"passage": job.batches_in("corpus", rows), "query": -(-queries.num_rows // rows)}
    total, done = job.rows("corpus") + queries.num_rows, 0
    try:
        for texts in job.spread(encode_shards, [(side, n) for side, many in shards.items() for n in range(many)]):
            done += texts
            job.progress(done, total, "texts")
    finally:
        _model.cache_clear()
    for side, many in shards.items():
        with job.writer(_VECTORS[side].name) as out:
            for number in range(many):
                out.adopt(_part(job, _VECTORS[side], number))


def encode_shards(job: Job[EncodeParams], shards: "Sequence[tuple[Side, int]]") -> Iterator[int]:
    """Leave the vectors of some consecutive shards as parts in `job.work`; yields how many texts each has."""
    import torch

    from noisyir.retrieval.encode import ShardEncoder, passages

    torch.set_num_threads(job.runtime.cpu_threads)
    model, batch_tokens = _model(job.folder("model"), job.runtime.device, job.runtime.batch_tokens)
    encoder = ShardEncoder(model, job.work, job.params.dtype, batch_tokens)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=job.params.precision == "bf16"):
        for side, some in groupby(shards, lambda shard: shard[0]):
            numbers = [number for _, number in some]
            rows, first = job.params.shard_rows, numbers[0]
            texts = _asked(job, first) if side == "query" else passages(job.batches("corpus", rows, first))
            yield from encoder.encode(zip(numbers, texts, strict=False), side, _VECTORS[side])


def _part(job: Job[EncodeParams], artifact: Artifact, number: int) -> Path:
    """A shard's part, its digest checked.  StoreError where it was damaged since it was written."""
    from noisyir.retrieval.encode import finished_part

    if (path := finished_part(job.work, artifact, number)) is None:
        raise StoreError(f"shard {number} of {artifact.name} is gone or damaged: run again, and it is encoded anew")
    return path


@lru_cache(maxsize=1)  # one load for all shards that a process gets
def _model(folder: Path, device: str, batch_tokens: int | Literal["auto"]) -> "tuple[BiEncoder, int]":
    from noisyir.models.bi_encoder import load_bi_encoder

    model = load_bi_encoder(folder, device)
    return model, model.batch_tokens(batch_tokens)


def _asked(job: Job[EncodeParams], first: int) -> "Iterator[Shard]":
    from noisyir.retrieval.encode import Shard

    for batch in _queries(job).combine_chunks().to_batches(job.params.shard_rows)[first:]:
        yield Shard(batch["query_id"], batch["query_id"], batch["text"].to_pylist())


def _queries(job: Job[EncodeParams]) -> pa.Table:
    from noisyir.retrieval.texts import of_splits

    return of_splits(job.table("queries"), job.params.splits, "encode.splits")


def encode_new(job: Job[EncodeParams]) -> None:
    """Encode new rows in shards kept in `job.work`, as `encode` does; then merge them with the earlier vectors."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import ShardEncoder, passages
    from noisyir.retrieval.merge import merged

    torch.set_num_threads(job.runtime.cpu_threads)
    model = load_bi_encoder(job.folder("model"), job.runtime.device)
    new = pc.is_null(job.table("row_origins")["earlier_row"])
    total, done, parts = pc.sum(new).as_py() or 0, 0, list[Path]()
    encoder = ShardEncoder(model, job.work, job.params.dtype, model.batch_tokens(job.runtime.batch_tokens))
    with torch.autocast(model.device.type, torch.bfloat16, enabled=job.params.precision == "bf16"):
        shards = passages(regrouped(_new_documents(job, new), job.params.shard_rows))
        for texts in encoder.encode(enumerate(shards), "passage", DOC_VECTORS):
            parts.append(_part(job, DOC_VECTORS, len(parts)))
            done += texts
            job.progress(done, total, "texts")
    earlier, rows = job.batches("earlier", job.params.shard_rows), job.batches("row_origins", job.params.shard_rows)
    encoded = chain.from_iterable(pq.ParquetFile(part).iter_batches() for part in parts)
    with job.writer("doc_vectors") as out:
        for part in regrouped(merged(rows, earlier, encoded), job.params.shard_rows):
            out.append(part)
    job.note("texts", {"encoded": total, "reused": len(new) - total})


def _new_documents(job: Job[EncodeParams], new: pa.ChunkedArray) -> Iterator[pa.Table]:
    first = 0
    for batch in job.batches("corpus", job.params.shard_rows):
        yield pa.Table.from_batches([batch]).filter(new.slice(first, batch.num_rows))
        first += batch.num_rows


def _fits(params: EncodeParams, data: SplitCounts) -> None:
    from noisyir.retrieval.texts import check_splits

    check_splits(data.queries.keys(), params.splits, "encode.splits")


ENCODE = Stage(
    name="encode",
    version=1,
    params=EncodeParams,
    reads={
        "model": MODEL.all(),
        "corpus": CORPUS["doc_id", "doc_row", "title", "text"],
        "queries": QUERIES["query_id", "text", "split"],
    },
    writes={"doc_vectors": DOC_VECTORS, "query_vectors": QUERY_VECTORS},
    run=encode,
    pool="gpu",
    spreads=True,
    fits=_fits,
    cost=encoding,
)

ENCODE_NEW = Stage(
    name="encode_new",
    version=1,
    params=EncodeParams,
    reads={
        "model": MODEL.all(),
        "corpus": CORPUS["doc_id", "doc_row", "title", "text"],
        "row_origins": ROW_ORIGINS.all(),
        "earlier": DOC_VECTORS.all(),
    },
    writes={"doc_vectors": DOC_VECTORS},
    run=encode_new,
    pool="gpu",
    cost=encoding,
)
