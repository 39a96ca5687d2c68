"""keep_states: outputs of a transformer's lower layers for all documents and queries, for every training to read."""

import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.artifact import I32, Artifact
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import conform
from noisyir.models.artifacts import LOWER_STATES, MODEL
from noisyir.retrieval.settings import KeepStatesParams

if TYPE_CHECKING:
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.text_tokenizer import Side, Tokens

_TABLES: "dict[Side, str]" = {"passage": "corpus", "query": "queries"}
_ROWS = 512  # of a shard: 60 MB of MiniLM's states
_SHARD = Artifact("states_of_texts", 1, {"key": pa.uint64(), "length": I32, "states": pa.large_binary()})
_BYTES = 2  # of a float16


def keep_states(job: Job[KeepStatesParams]) -> None:
    """Compute the states in shards, then join them; a killed build resumes after the finished ones."""
    from noisyir.models.kept_states import STATES, digest_of, refuse_unsplit, write_about

    encoder, tokens = _encoder(job), _first_texts(job)
    if not encoder.transformers:
        raise ConfigError("models.static_cannot_be_limited")
    for tower in {encoder.query_tower, encoder.passage_tower}:
        refuse_unsplit(tower, job.params.layers, tokens)
    sides: dict[Side, int] = {side: job.batches_in(_TABLES[side], _ROWS) for side in _TABLES}
    items = {f"{side}-{number:05d}": (side, number) for side, many in sides.items() for number in range(many)}
    total = sum(job.rows(table) for table in _TABLES.values())
    parts = list(job.spread(states_of, items, total=total, unit="texts"))
    _refuse_full_disk(job, sum(part.stat().st_size for part in parts))
    keys, lengths, folder = [], [], job.new_folder("lower_states")
    with (folder / STATES).open("wb") as out:
        for part in parts:
            for some in pq.ParquetFile(part).iter_batches(_ROWS):
                keys.append(some["key"].to_numpy())
                lengths.append(some["length"].to_numpy())
                out.writelines(states.as_buffer() for states in some["states"])
    digest = digest_of(encoder.transformers, job.params.layers)
    write_about(folder, job.params.layers, digest, encoder.dim, np.concatenate(keys), np.concatenate(lengths))
    job.note("bytes", (folder / STATES).stat().st_size)


def states_of(job: Job[KeepStatesParams], shards: "Sequence[tuple[Side, int]]") -> Iterator[pa.Table]:
    """Yield the states of some shards, in their order."""
    from noisyir.models.kept_states import keys_of, lower_states

    encoder = _encoder(job)
    batch_tokens = encoder.batch_tokens(job.runtime.batch_tokens)
    for side, number in shards:
        tokens = encoder.tokenize(_texts(job, side, number), side)
        tower = encoder.query_tower if side == "query" else encoder.passage_tower
        states = lower_states(tower, job.params.layers, tokens, batch_tokens)
        starts = pa.array(tokens.offsets * states.shape[1] * _BYTES)
        column = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(tokens), [None, starts.buffers()[1], pa.py_buffer(states)]
        )
        made = {"key": keys_of(tokens, side), "length": tokens.lengths, "states": column}
        yield conform(_SHARD, pa.table(made), "keep_states")


def _texts(job: Job[KeepStatesParams], side: "Side", number: int) -> list[str]:
    from noisyir.models.text_tokenizer import passage_text

    (batch,) = islice(job.batches(_TABLES[side], _ROWS, number), 1)
    texts: list[str] = batch["text"].to_pylist()
    return texts if side == "query" else list(map(passage_text, batch["title"].to_pylist(), texts))


def _first_texts(job: Job[KeepStatesParams]) -> "Tokens":
    """Return passages to try the model on."""
    return _encoder(job).tokenize(_texts(job, "passage", 0), "passage")


def _encoder(job: Job[KeepStatesParams]) -> "BiEncoder":
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder

    torch.set_num_threads(job.runtime.cpu_threads)
    return load_bi_encoder(job.folder("model"), job.runtime.device)


def _refuse_full_disk(job: Job[KeepStatesParams], wanted: int) -> None:
    free = shutil.disk_usage(job.staging).free
    if wanted > free:
        raise DataError("retrieval.no_room_for_states", wanted=wanted / 1e9, free=free / 1e9)


KEEP_STATES = Stage(
    name="keep_states",
    version=1,
    params=KeepStatesParams,
    reads={"model": MODEL.all(), "corpus": CORPUS["title", "text"], "queries": QUERIES["text",]},
    writes={"lower_states": LOWER_STATES},
    run=keep_states,
    pool="gpu",
    spreads=True,
)
