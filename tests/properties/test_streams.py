"""A stream that begins with a later batch gives the batches that one from the beginning would."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from noisyir.engine.tables import batches_in, stream_parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parts")


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=3), group=st.integers(1, 12), rows=st.integers(1, 15))
def test_batches_from_the_middle(folder, sizes, group, rows):
    paths, start = [], 0
    for number, size in enumerate(sizes):
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(pa.table({"n": range(start, start + size)}), paths[-1], row_group_size=group)
        start += size
    fs = LocalFileSystem()
    expected = [batch["n"].to_pylist() for batch in stream_parts(fs, paths, ["n"], rows) if batch.num_rows]
    assert [n for batch in expected for n in batch] == list(range(start))
    assert batches_in(fs, paths, rows) == len(expected) == sum(-(-size // rows) for size in sizes)
    for skip in range(len(expected) + 1):
        found = [batch["n"].to_pylist() for batch in stream_parts(fs, paths, ["n"], rows, skip)]
        assert [batch for batch in found if batch] == expected[skip:]
