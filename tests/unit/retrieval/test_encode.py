"""Encoding by shards: order, batches, resuming, and vectors that are not numbers."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from noisyir.errors import DataError
from noisyir.models.tokens import Tokens
from noisyir.retrieval.encode import Shard, ShardEncoder, finished_part
from noisyir.schemas.retrieval import DOC_VECTORS, QUERY_VECTORS


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
        yield Shard(pa.array(rows, pa.int32()), pa.array([f"d{row}" for row in rows]), [texts[row] for row in rows])


def vectors(parts):
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    return np.array(table["vector"].to_pylist()), table["doc_row"].to_pylist()


def encode(encoder, shards, side="passage", artifact=DOC_VECTORS):
    """The parts, and how many texts each has."""
    told = list(encoder.encode(enumerate(shards), side, artifact))
    return [finished_part(encoder.folder, artifact, number) for number in range(len(told))], told


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcd"), size=rng.integers(0, 30))) for _ in range(100)]


def test_vectors_are_in_the_order_of_the_texts_and_batches_keep_the_budget(tmp_path, texts):
    model = LetterModel()
    parts, _ = encode(ShardEncoder(model, tmp_path, "float32", 64), shards(texts, 30))
    found, rows = vectors(parts)
    assert found.tolist() == [[text.count(letter) for letter in "abcd"] for text in texts]
    assert rows == list(range(100))
    assert [part.name[:18] for part in parts] == [f"doc_vectors-0000{n}-" for n in range(4)]
    assert model.largest <= 64


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_hold_fixed_size_vectors_of_the_asked_precision(tmp_path, texts, dtype):
    (part, *_), _ = encode(ShardEncoder(LetterModel(), tmp_path, dtype, 64), shards(texts, 50))
    kind = pa.float16() if dtype == "float16" else pa.float32()
    assert pq.read_schema(part).field("vector").type == pa.list_(kind, 4)


def test_a_second_start_skips_finished_shards_and_ends_in_the_same_bytes(tmp_path, texts):
    class Dies(LetterModel):
        def embed(self, tokens, side):
            if len(self.tokenized) > 60:
                raise KeyboardInterrupt
            return super().embed(tokens, side)

    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    whole.mkdir()
    resumed.mkdir()
    expected, _ = encode(ShardEncoder(LetterModel(), whole, "float32", 64), shards(texts, 30))
    with pytest.raises(KeyboardInterrupt):
        encode(ShardEncoder(Dies(), resumed, "float32", 64), shards(texts, 30))
    finished = [path.name for path in sorted(resumed.glob("*.parquet"))]
    assert finished and len(finished) < 4
    model = LetterModel()
    parts, told = encode(ShardEncoder(model, resumed, "float32", 64), shards(texts, 30))
    assert model.tokenized == texts[30 * len(finished) :]
    assert told == [30, 30, 30, 10]
    assert [part.read_bytes() for part in parts] == [part.read_bytes() for part in expected]


def test_vectors_that_are_not_finite_are_an_error_that_names_the_documents(tmp_path):
    class Broken(LetterModel):
        def embed(self, tokens, side):
            found = super().embed(tokens, side)
            found[found[:, 0] > 1] = torch.nan
            return found

    texts = ["a", *["aa"] * 7, "b"]
    with pytest.raises(DataError) as caught:
        encode(ShardEncoder(Broken(), tmp_path, "float32", 64), shards(texts, 30))
    assert "d1, d2, d3, d4, d5 and 2 more" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_vectors_too_large_for_half_precision_are_an_error_that_says_so(tmp_path):
    class Large(LetterModel):
        def embed(self, tokens, side):
            return super().embed(tokens, side) * 1e5

    shard = Shard(pa.array(["q7"]), pa.array(["q7"]), ["a"])
    with pytest.raises(DataError, match=r"float16 vectors for the query ids q7.*encode\.dtype=float32"):
        encode(ShardEncoder(Large(), tmp_path, "float16", 64), [shard], "query", QUERY_VECTORS)


def test_a_damaged_shard_is_encoded_anew(tmp_path, caplog):
    texts = [letter * (1 + number % 7) for number, letter in enumerate("abcd" * 25)]
    parts, _ = encode(ShardEncoder(LetterModel(), tmp_path, "float32", 64), shards(texts, 30))
    whole = [part.read_bytes() for part in parts]
    flipped = bytearray(whole[1])
    flipped[len(flipped) // 2] ^= 1
    parts[1].write_bytes(flipped)
    parts[2].write_bytes(whole[2][:-9])
    again, _ = encode(ShardEncoder(LetterModel(), tmp_path, "float32", 64), shards(texts, 30))
    assert [part.read_bytes() for part in again] == whole and again == parts
    assert caplog.text.count("is encoded anew") == 2
