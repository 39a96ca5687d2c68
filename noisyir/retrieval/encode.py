"""Vectors of texts, shard by shard."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError
from noisyir.engine.prefetch import prefetched
from noisyir.engine.tables import conform
from noisyir.models.text_tokenizer import Side, Tokens, passage_text, token_batches
from noisyir.retrieval.texts import shortened

Rows = npt.NDArray[np.int64]
_NAMED = 5  # documents or queries that an error names


class Encoder(Protocol):
    """The parts of a bi-encoder that encoding needs."""

    def tokenize(self, texts: list[str], side: Side) -> Tokens:
        """Tokenise texts."""

    def embed(self, tokens: Tokens, side: Side) -> torch.Tensor:
        """Embed tokenised texts: float32 (text, dim)."""


@dataclass(frozen=True)
class VectorShard:
    """Texts with `keys` for the vectors' table and `names` for messages."""

    keys: pa.Array
    names: pa.Array
    texts: list[str]


def passages(documents: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[VectorShard]:
    """Yield a shard of each batch of CORPUS (doc_id, doc_row, title, text)."""
    for batch in documents:
        texts = map(passage_text, batch["title"].to_pylist(), batch["text"].to_pylist())
        yield VectorShard(batch["doc_row"], batch["doc_id"], list(texts))


@dataclass(frozen=True)
class ShardEncoder:
    """Encodes shards into vectors of type `dtype`, in batches of `batch_tokens` padded tokens.

    Vectors are cut to their first `dimensions` numbers (None: all) and, with `cosine`, normalised again.
    """

    model: Encoder
    dtype: Literal["float32", "float16"]
    batch_tokens: int
    dimensions: int | None = None
    cosine: bool = True

    def encode(self, shards: Iterable[VectorShard], side: Side, artifact: Artifact) -> Iterator[pa.Table]:
        """Yield the rows of `artifact` for each shard, tokenising the next one meanwhile."""

        def prepare(shard: VectorShard) -> tuple[VectorShard, Tokens]:
            return shard, self.model.tokenize(shard.texts, side)

        with ThreadPoolExecutor(1) as thread:
            for shard, tokens in prefetched(thread, prepare, shards, 1):
                yield self._table(shard, tokens, side, artifact)

    def _table(self, shard: VectorShard, tokens: Tokens, side: Side, artifact: Artifact) -> pa.Table:
        with np.errstate(over="ignore"):  # overflows of float16 become infinite and are refused below
            whole = embed_all(self.model, tokens, side, self.batch_tokens)
            vectors = shortened(whole, self.dimensions, cosine=self.cosine).astype(self.dtype, copy=False)
        _refuse_not_finite(vectors, shard, side)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        (key,) = artifact.key
        return conform(artifact, pa.table({key: shard.keys, "vector": column}), "encode")


def embed_all(model: Encoder, tokens: Tokens, side: Side, batch_tokens: int) -> npt.NDArray[np.float32]:
    """Embed tokenised texts in batches of similar length; vectors (text, dim) keep the order."""
    vectors: npt.NDArray[np.float32] | None = None
    for rows in token_batches(tokens.lengths, batch_tokens):
        with torch.inference_mode():
            found = model.embed(tokens.take(rows), side).cpu().numpy()
        if vectors is None:
            vectors = np.empty((len(tokens), found.shape[1]), np.float32)
        vectors[rows] = found
    assert vectors is not None, "a shard has at least one text"
    return vectors


def _refuse_not_finite(vectors: npt.NDArray[Any], shard: VectorShard, side: Side) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        names = ", ".join(shard.names.take(pa.array(bad[:_NAMED])).to_pylist())
        many = f"{names} and {len(bad) - _NAMED} more" if len(bad) > _NAMED else names
        raise DataError("retrieval.vectors_not_finite", dtype=vectors.dtype, side=side, ids=many)


def merged(
    origins: Iterable[pa.RecordBatch], earlier: Iterable[pa.RecordBatch], new: Iterable[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Yield (doc_row, vector) for each batch of `origins` (doc_row, earlier_row), which counts all rows up.

    `earlier` are the previous corpus's (doc_row, vector), in which rows keep their order, so that both are streams;
    `new` are rows without an earlier one.
    """
    before, added = _Ahead(earlier), _Ahead(new)
    for batch in origins:
        is_new: npt.NDArray[np.bool_] = batch["earlier_row"].is_null().to_numpy(zero_copy_only=False)
        old = np.asarray(batch["earlier_row"].drop_null(), np.int64)
        fresh = batch["doc_row"].to_numpy()[is_new].astype(np.int64)
        vectors = pa.concat_arrays([*before.take(old), *added.take(fresh)])
        place = np.empty(len(is_new), np.int64)
        place[~is_new], place[is_new] = np.arange(len(old)), len(old) + np.arange(len(fresh))
        yield pa.table({"doc_row": batch["doc_row"], "vector": vectors.take(pa.array(place))})


class _Ahead:
    """A stream of vectors in the order of doc_row, from which ever later rows are taken."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None
        self._rows: Rows = np.empty(0, np.int64)  # of the batch

    def take(self, wanted: Rows) -> Iterator[pa.Array]:
        """Yield the vectors of these rows, which are ascending and after all taken rows."""
        while len(wanted):
            if not len(self._rows) or self._rows[-1] < wanted[0]:
                self._advance(int(wanted[0]))
                continue
            assert self._batch is not None
            here = wanted[wanted <= self._rows[-1]]
            place = np.searchsorted(self._rows, here)
            if len(missing := here[self._rows[place] != here]):
                raise DataError("retrieval.no_vector", row=missing[0])
            yield self._batch["vector"].take(pa.array(place))
            wanted = wanted[len(here) :]

    def _advance(self, wanted: int) -> None:
        batch = next(self._batches, None)
        if batch is None:
            raise DataError("retrieval.no_vector", row=wanted)
        self._batch, self._rows = batch, batch["doc_row"].to_numpy().astype(np.int64)
