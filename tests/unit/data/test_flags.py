"""Pairs beside what a detection said last."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import DataError
from noisyir.training.flags import with_flags

PAIRS = pa.table({"query_id": ["b", "a", "c", "d"], "doc_id": ["x", "u", "w", "y"], "split": ["train"] * 3 + ["dev"]})
FLAGS = pa.table(
    {
        "query_id": ["c", "a", "b", "b", "a", "c"],
        "doc_id": ["w", "u", "x", "x", "u", "w"],
        "epoch": pa.array([1, 1, 1, 2, 2, 2], pa.int32()),
        "p_clean": pa.array([0.9, 0.8, 0.7, 0.1, 0.2, 0.6], pa.float32()),
        "is_clean": [True, True, True, False, False, True],
    }
)


def test_pairs_get_what_the_last_detection_said_and_keep_their_order():
    train = PAIRS.slice(0, 3)
    found = with_flags(train, FLAGS)
    assert found.column_names == ["query_id", "doc_id", "split", "p_clean", "is_clean"]
    assert found.select(["query_id", "doc_id", "split"]).equals(train)
    assert found["is_clean"].to_pylist() == [False, False, True]
    assert found["p_clean"].to_pylist() == pytest.approx([0.1, 0.2, 0.6])
    backwards = with_flags(train.take([2, 1, 0]), FLAGS)
    assert backwards["query_id"].to_pylist() == ["c", "a", "b"]
    assert backwards["is_clean"].to_pylist() == [True, False, False]


@pytest.fixture
def four_arrow_threads():
    before = pa.cpu_count()
    pa.set_cpu_count(4)
    yield
    pa.set_cpu_count(before)


@pytest.mark.usefixtures("four_arrow_threads")
def test_so_many_pairs_that_a_join_runs_in_parallel_keep_their_order():
    rng, count = np.random.default_rng(0), 300_000
    ids = rng.permutation(count)
    pairs = pa.table({"query_id": pa.array(ids).cast(pa.string()), "doc_id": pa.array(ids[::-1]).cast(pa.string())})
    flags = pairs.append_column("epoch", pa.array(np.ones(count, np.int32)))
    flags = flags.append_column("is_clean", pa.array(ids % 3 == 0))
    found = with_flags(pairs, flags.take(rng.permutation(count)))
    assert found.equals(pairs.append_column("is_clean", flags["is_clean"]))


@pytest.mark.parametrize(("flags", "missing"), [(FLAGS.slice(0, 5), 1), (FLAGS.slice(0, 0), 3)])
def test_a_pair_without_a_flag_is_named(flags, missing):
    example = r"\{'query_id': '[abc]', 'doc_id': '[uwx]'\}"
    said = f"^{missing} of 3 training pairs have no flag, for example {example}: detect on"
    with pytest.raises(DataError, match=said):
        with_flags(PAIRS.slice(0, 3), flags)
