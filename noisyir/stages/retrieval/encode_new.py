"""encode_new: the vectors of a refreshed corpus; only texts that are new are encoded, the others' are taken over."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.costs.retrieval import encoding
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import regrouped
from noisyir.retrieval.settings import EncodeParams
from noisyir.schemas.data import CORPUS
from noisyir.schemas.retrieval import DOC_VECTORS, ROW_ORIGINS
from noisyir.schemas.training import MODEL


def encode_new(job: Job[EncodeParams]) -> None:
    """Encode new rows in shards kept in `job.work`, as `encode` does; then merge them with the earlier vectors."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import ShardEncoder, part_of, passages
    from noisyir.retrieval.merge import merged

    torch.set_num_threads(job.runtime.cpu_threads)
    model = load_bi_encoder(job.folder("model"), job.runtime.device)
    new = pc.is_null(job.table("row_origins")["earlier_row"])
    total, done, parts = pc.sum(new).as_py() or 0, 0, list[Path]()
    encoder = ShardEncoder(model, job.work, job.params.dtype, model.batch_tokens(job.runtime.batch_tokens))
    with torch.autocast(model.device.type, torch.bfloat16, enabled=job.params.precision == "bf16"):
        shards = passages(regrouped(_new_documents(job, new), job.params.shard_rows))
        for texts in encoder.encode(enumerate(shards), "passage", DOC_VECTORS):
            parts.append(part_of(job.work, DOC_VECTORS, len(parts)))
            done += texts
            job.progress(done, total, "texts")
    earlier, rows = job.batches("earlier", job.params.shard_rows), job.batches("row_origins", job.params.shard_rows)
    with job.writer("doc_vectors") as out:
        for part in regrouped(merged(rows, earlier, _batches(parts)), job.params.shard_rows):
            out.append(part)
    job.note("texts", {"encoded": total, "reused": len(new) - total})


def _new_documents(job: Job[EncodeParams], new: pa.ChunkedArray) -> Iterator[pa.Table]:
    first = 0
    for batch in job.batches("corpus", job.params.shard_rows):
        yield pa.Table.from_batches([batch]).filter(new.slice(first, batch.num_rows))
        first += batch.num_rows


def _batches(parts: list[Path]) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(pq.ParquetFile(part).iter_batches() for part in parts)


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
