"""encode: a vector for every document, and for every query of the chosen splits."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from noisyir.costs.retrieval import encoding
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.settings import EncodeParams
from noisyir.schemas.data import CORPUS, QUERIES
from noisyir.schemas.retrieval import DOC_VECTORS, QUERY_VECTORS
from noisyir.schemas.training import MODEL

if TYPE_CHECKING:
    import pyarrow as pa

    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.tokens import Side
    from noisyir.retrieval.encode import Shard

_VECTORS = {"passage": DOC_VECTORS, "query": QUERY_VECTORS}


def encode(job: Job[EncodeParams]) -> None:
    """Encode in shards kept in `job.work`: a killed build goes on behind its last finished shard."""
    from noisyir.retrieval.encode import part_of

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
                out.adopt(part_of(job.work, _VECTORS[side], number))


def encode_shards(job: Job[EncodeParams], shards: "Sequence[tuple[Side, int]]") -> Iterator[int]:
    """Leave the vectors of some consecutive shards as parts in `job.work`; yields how many texts each has."""
    import torch

    from noisyir.retrieval.encode import ShardEncoder

    torch.set_num_threads(job.runtime.cpu_threads)
    model, batch_tokens = _model(job.folder("model"), job.runtime.device, job.runtime.batch_tokens)
    encoder = ShardEncoder(model, job.work, job.params.dtype, batch_tokens)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=job.params.precision == "bf16"):
        for side, some in groupby(shards, lambda shard: shard[0]):
            numbers = [number for _, number in some]
            texts = _passages(job, numbers[0]) if side == "passage" else _asked(job, numbers[0])
            yield from encoder.encode(zip(numbers, texts, strict=False), side, _VECTORS[side])


@lru_cache(maxsize=1)  # one load for all shards that a process gets
def _model(folder: Path, device: str, batch_tokens: int | Literal["auto"]) -> "tuple[BiEncoder, int]":
    from noisyir.models.bi_encoder import load_bi_encoder

    model = load_bi_encoder(folder, device)
    return model, model.batch_tokens(batch_tokens)


def release_gpu() -> None:
    """Let go of the model where it takes a GPU's memory, which others have next."""
    import torch

    if torch.cuda.is_available():
        _model.cache_clear()
        torch.cuda.empty_cache()


def _passages(job: Job[EncodeParams], first: int) -> "Iterator[Shard]":
    from noisyir.retrieval.encode import passages

    return passages(job.batches("corpus", job.params.shard_rows, first))


def _asked(job: Job[EncodeParams], first: int) -> "Iterator[Shard]":
    from noisyir.retrieval.encode import Shard

    for batch in _queries(job).combine_chunks().to_batches(job.params.shard_rows)[first:]:
        yield Shard(batch["query_id"], batch["query_id"], batch["text"].to_pylist())


def _queries(job: Job[EncodeParams]) -> "pa.Table":
    from noisyir.retrieval.texts import of_splits

    return of_splits(job.table("queries"), job.params.splits, "encode.splits")


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
    cost=encoding,
)
