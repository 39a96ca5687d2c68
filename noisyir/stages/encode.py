"""encode: a vector for every document, and for every query of the chosen splits."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from noisyir.config import EncodeParams
from noisyir.schemas import CORPUS, DOC_VECTORS, MODEL, QUERIES, QUERY_VECTORS
from noisyir.stage import Job, Stage

if TYPE_CHECKING:
    import pyarrow as pa

    from noisyir.retrieval.encode import Shard


def encode(job: Job[EncodeParams]) -> None:
    """Encode in shards kept in `job.work`: a killed build goes on behind its last finished shard."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import ShardEncoder, passages
    from noisyir.retrieval.texts import of_splits

    torch.set_num_threads(job.runtime.cpu_threads)
    model = load_bi_encoder(job.folder("model"), job.runtime.device)
    queries = of_splits(job.table("queries"), job.params.splits, "encode.splits")
    total, done = job.rows("corpus") + queries.num_rows, 0

    def finished(texts: int) -> None:
        nonlocal done
        done += texts
        job.progress(done, total, "texts")

    encoder = ShardEncoder(model, job.work, job.params.dtype, model.batch_tokens(job.runtime.batch_tokens))
    documents = encoder.parts(passages(job.batches("corpus", job.params.shard_rows)), "passage", DOC_VECTORS, finished)
    asked = encoder.parts(_queries(job, queries), "query", QUERY_VECTORS, finished)
    bf16 = job.params.precision == "bf16"
    for name, parts in (("doc_vectors", documents), ("query_vectors", asked)):
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16), job.writer(name) as out:
            for part in parts:
                out.adopt(part)


def _queries(job: Job[EncodeParams], queries: "pa.Table") -> "Iterator[Shard]":
    from noisyir.retrieval.encode import Shard

    for batch in queries.combine_chunks().to_batches(job.params.shard_rows):
        yield Shard(batch["query_id"], batch["query_id"], batch["text"].to_pylist())


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
)
