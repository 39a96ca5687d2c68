"""encode: a vector for every document and chosen query; encode_new: vectors of a refreshed corpus's new texts."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.base.errors import ConfigError
from noisyir.data.artifacts import CORPUS, QUERIES, ROW_ORIGINS
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import regrouped
from noisyir.models.artifacts import LOWER_STATES, MODEL
from noisyir.models.backends import CALIBRATED, check_backend
from noisyir.retrieval.artifacts import DOC_VECTORS, QUERY_VECTORS
from noisyir.retrieval.settings import EncodeParams
from noisyir.retrieval.texts import of_splits, splits_fit

if TYPE_CHECKING:
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.openvino_encoder import OpenVinoEncoder
    from noisyir.models.text_tokenizer import Side
    from noisyir.retrieval.encode import ShardEncoder, VectorShard

_VECTORS = {"passage": DOC_VECTORS, "query": QUERY_VECTORS}


def encode(job: Job[EncodeParams]) -> None:
    """Encode in shards; a killed build resumes after the finished ones."""
    rows, queries = job.params.shard_rows, _queries(job)
    shards: dict[Side, int] = {"passage": job.batches_in("corpus", rows), "query": -(-queries.num_rows // rows)}
    items = {_name(side, number): (side, number) for side, many in shards.items() for number in range(many)}
    total = job.rows("corpus") + queries.num_rows
    try:
        parts = job.spread(encode_shards, items, total=total, unit="texts")
        for side, many in shards.items():
            with job.writer(_VECTORS[side].name) as out:
                for part in islice(parts, many):
                    out.adopt(part)
    finally:
        _forget()


def encode_shards(job: Job[EncodeParams], shards: "Sequence[tuple[Side, int]]") -> Iterator[pa.Table]:
    """Yield the vectors of some shards, in their order."""
    encoder, in_precision = _encoder(job)
    with in_precision:
        for side, numbers in _runs(shards):
            first = numbers[0]
            texts = _queries_from(job, first) if side == "query" else passages_from(job, first)
            yield from encoder.encode(islice(texts, len(numbers)), side, _VECTORS[side])


def passages_from(job: Job[EncodeParams], first: int) -> "Iterator[VectorShard]":
    """Yield the corpus in shards, from number `first` on."""
    from noisyir.retrieval.encode import passages

    return passages(job.batches("corpus", job.params.shard_rows, first))


def _runs(shards: "Sequence[tuple[Side, int]]") -> "Iterator[tuple[Side, list[int]]]":
    """Group consecutive shards, which are read as one stream."""
    for (side, _), run in groupby(enumerate(shards), lambda one: (one[1][0], one[1][1] - one[0])):
        yield side, [number for _, (_, number) in run]


def _name(side: "Side", number: int) -> str:
    return f"{_VECTORS[side].name}-{number:05d}"


def _encoder(job: Job[EncodeParams]) -> "tuple[ShardEncoder, AbstractContextManager[Any]]":
    """Return the encoder, and the precision to call it in."""
    import torch

    from noisyir.retrieval.encode import ShardEncoder

    params, runtime = job.params, job.runtime
    torch.set_num_threads(runtime.cpu_threads)
    states = job.folder("states") if job.has("states") else None
    model, batch_tokens = _model(job.folder("model"), _device(params, runtime), runtime.batch_tokens, states)
    if (params.dimensions or 0) > model.dim:
        raise ConfigError("retrieval.too_many_dimensions", dimensions=params.dimensions, dim=model.dim)
    cosine = model.similarity == "cosine"
    if params.backend == "torch":
        bf16 = torch.autocast(model.device.type, torch.bfloat16, enabled=params.precision == "bf16")
        return ShardEncoder(model, params.dtype, batch_tokens, params.dimensions, cosine), bf16
    texts = tuple(_first_passages(job)) if params.backend == "openvino-qint8" else None
    graphs, batch_tokens = _graphs(job.folder("model"), params.precision, runtime, texts)
    return ShardEncoder(graphs, params.dtype, batch_tokens, params.dimensions, cosine), nullcontext()


def _device(params: EncodeParams, runtime: Runtime) -> str:
    """Return the device of torch's model: the CPU if another backend computes."""
    return runtime.device if params.backend == "torch" else "cpu"


@lru_cache(maxsize=1)  # one load for all shards that a process gets
def _model(
    folder: Path, device: str, batch_tokens: int | Literal["auto"] | None, states: Path | None = None
) -> "tuple[BiEncoder, int]":
    from noisyir.models.bi_encoder import load_bi_encoder

    model = load_bi_encoder(folder, device)
    if states is not None:
        model.read_kept(states)
    return model, model.batch_tokens(batch_tokens)


@lru_cache(maxsize=1)
def _graphs(
    folder: Path, precision: Literal["fp32", "bf16"], runtime: Runtime, calibration: tuple[str, ...] | None
) -> "tuple[OpenVinoEncoder, int]":
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    model, batch_tokens = _model(folder, "cpu", runtime.batch_tokens)
    threads = runtime.cpu_threads
    return OpenVinoEncoder(model, precision=precision, threads=threads, calibration=calibration), batch_tokens


def _forget() -> None:
    for loaded in (_model, _graphs):
        loaded.cache_clear()


def _first_passages(job: Job[EncodeParams]) -> list[str]:
    """Return the passages that calibrate 8-bit activations."""
    from noisyir.retrieval.encode import passages

    return next(passages(job.batches("corpus", CALIBRATED))).texts


def _ready(params: EncodeParams) -> None:
    check_backend(params.backend, "encode.backend")


def _queries_from(job: Job[EncodeParams], first: int) -> "Iterator[VectorShard]":
    from noisyir.retrieval.encode import VectorShard

    for batch in _queries(job).combine_chunks().to_batches(job.params.shard_rows)[first:]:
        yield VectorShard(batch["query_id"], batch["query_id"], batch["text"].to_pylist())


def _queries(job: Job[EncodeParams]) -> pa.Table:
    return of_splits(job.table("queries"), job.params.splits, "encode.splits")


def encode_new(job: Job[EncodeParams]) -> None:
    """Encode new rows in shards like `encode`, then merge them with the earlier vectors."""
    from noisyir.retrieval.encode import merged

    new = pc.is_null(job.table("row_origins")["earlier_row"])
    total = pc.sum(new).as_py() or 0
    items = {_name("passage", number): number for number in range(-(-total // job.params.shard_rows))}
    try:
        parts = list(job.spread(encode_new_shards, items, total=total, unit="texts"))
    finally:
        _forget()
    earlier, rows = job.batches("earlier", job.params.shard_rows), job.batches("row_origins", job.params.shard_rows)
    encoded = chain.from_iterable(pq.ParquetFile(part).iter_batches() for part in parts)
    with job.writer("doc_vectors") as out:
        for part in regrouped(merged(rows, earlier, encoded), job.params.shard_rows):
            out.append(part)
    job.note("texts", {"encoded": total, "reused": len(new) - total})


def encode_new_shards(job: Job[EncodeParams], numbers: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the vectors of some shards of new rows."""
    from noisyir.retrieval.encode import passages

    encoder, in_precision = _encoder(job)
    wanted = set(numbers)
    new = pc.is_null(job.table("row_origins")["earlier_row"])
    shards = enumerate(regrouped(_new_documents(job, new), job.params.shard_rows))
    with in_precision:
        yield from encoder.encode(passages(some for n, some in shards if n in wanted), "passage", DOC_VECTORS)


def _new_documents(job: Job[EncodeParams], new: pa.ChunkedArray) -> Iterator[pa.Table]:
    first = 0
    for batch in job.batches("corpus", job.params.shard_rows):
        yield pa.Table.from_batches([batch]).filter(new.slice(first, batch.num_rows))
        first += batch.num_rows


ENCODE = Stage(
    name="encode",
    version=1,
    params=EncodeParams,
    reads={
        "model": MODEL.all(),
        "corpus": CORPUS["doc_id", "doc_row", "title", "text"],
        "queries": QUERIES["query_id", "text", "split"],
        "states": LOWER_STATES.all().or_none(),
    },
    writes={"doc_vectors": DOC_VECTORS, "query_vectors": QUERY_VECTORS},
    run=encode,
    pool="gpu",
    spreads=True,
    ready=_ready,
    fits=partial(splits_fit, "encode.splits"),
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
    spreads=True,
    ready=_ready,
)
