"""Encoding by shards: order, batches, resuming, and vectors that are not numbers."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.models.text_tokenizer import Tokens
from noisyir.retrieval.artifacts import DOC_VECTORS, QUERY_VECTORS
from noisyir.retrieval.encode import ShardEncoder, VectorShard
from tests.refusals import refuses


class LetterModel:
    """A text's vector is the count of each letter of `abcd`; it keeps the largest padded batch and the texts seen."""

    def __init__(self):
        self.largest, self.tokenized = 0, []

    def tokenize(self, texts, side):
        self.tokenized += texts
        ids = [["abcd".index(letter) for letter in text] for text in texts]
        offsets = np.cumsum([0, *map(len, ids)])
        return Tokens(np.array([i for text in ids for i in text], np.int32), offsets)

    def embed(self, tokens, side):
        self.largest = max(self.largest, len(tokens) * tokens.lengths.max())
        texts = [tokens.ids[a:b] for a, b in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)]
        return torch.tensor(np.array([np.bincount(text, minlength=4) for text in texts]), dtype=torch.float32)


def shards(texts, size):
    for start in range(0, len(texts), size):
        rows = range(start, min(start + size, len(texts)))
        yield VectorShard(
            pa.array(rows, pa.int32()), pa.array([f"d{row}" for row in rows]), [texts[row] for row in rows]
        )


def encode(model, shards, dtype="float32", side="passage", artifact=DOC_VECTORS):
    return list(ShardEncoder(model, dtype, 64).encode(shards, side, artifact))


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcd"), size=rng.integers(0, 30))) for _ in range(100)]


def test_vectors_are_in_the_order_of_the_texts_and_batches_keep_the_budget(texts):
    model = LetterModel()
    tables = encode(model, shards(texts, 30))
    assert [table.num_rows for table in tables] == [30, 30, 30, 10]
    whole = pa.concat_tables(tables)
    assert whole["vector"].to_pylist() == [[text.count(letter) for letter in "abcd"] for text in texts]
    assert whole["doc_row"].to_pylist() == list(range(100))
    assert model.largest <= 64


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_are_of_fixed_size_and_the_asked_precision(texts, dtype):
    table, _ = encode(LetterModel(), shards(texts, 50), dtype)
    kind = pa.float16() if dtype == "float16" else pa.float32()
    assert table.schema.field("vector").type == pa.list_(kind, 4)


def test_vectors_that_are_not_finite_are_an_error_that_names_the_documents():
    class Broken(LetterModel):
        def embed(self, tokens, side):
            found = super().embed(tokens, side)
            found[found[:, 0] > 1] = torch.nan
            return found

    texts = ["a", *["aa"] * 7, "b"]
    with pytest.raises(DataError) as caught:
        encode(Broken(), shards(texts, 30))
    assert "d1, d2, d3, d4, d5 and 2 more" in str(caught.value)


def test_vectors_too_large_for_half_precision_are_an_error_that_says_so():
    class Large(LetterModel):
        def embed(self, tokens, side):
            return super().embed(tokens, side) * 1e5

    shard = VectorShard(pa.array(["q7"]), pa.array(["q7"]), ["a"])
    with refuses(DataError, "retrieval.vectors_not_finite", dtype="float16", side="query", ids="q7"):
        encode(Large(), [shard], "float16", "query", QUERY_VECTORS)
