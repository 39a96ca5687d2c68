"""Exact search by torch finds what FAISS's flat index finds."""

import numpy as np
import pytest

from noisyir.base.errors import DataError
from noisyir.retrieval import exact
from noisyir.retrieval.settings import IndexParams
from noisyir.retrieval.vector_search import open_vectors, search
from tests.refusals import refuses
from tests.unit.retrieval.test_index import DOC_IDS, QUERIES, ROWS, VECTORS, build, stream


def opened(folder):
    return open_vectors(folder, probes=1, breadth=1, device="cpu", threads=1)


@pytest.mark.parametrize("at_once", [7, 1999, 10**6])
def test_it_finds_what_the_flat_index_finds(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(exact, "_ROWS_AT_ONCE", at_once)
    exact.build_exact(stream(VECTORS), ROWS, tmp_path)
    ours, theirs = (search(index, QUERIES, DOC_IDS, 10) for index in (opened(tmp_path), build("Flat")))
    assert ours.doc_ids.to_pylist() == theirs.doc_ids.to_pylist()
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5)
    assert ours.scores.dtype == np.float32


def test_more_than_there_are_is_all_of_them_and_ties_go_by_row(tmp_path):
    vectors = np.eye(3, dtype=np.float32)[[0, 1, 0, 2]]
    exact.build_exact(stream(vectors, size=3), 4, tmp_path)
    hits = search(opened(tmp_path), vectors[:1], DOC_IDS, 10)
    assert hits.counts.tolist() == [4] and hits.doc_ids.to_pylist() == ["d0", "d2", "d1", "d3"]


def test_equal_vectors_give_equal_bytes_and_rows_are_checked(tmp_path):
    for name, size in (("a", 300), ("b", 77)):
        (tmp_path / name).mkdir()
        exact.build_exact(stream(VECTORS, size=size), ROWS, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    with refuses(DataError, "retrieval.rows_not_consecutive"):
        exact.build_exact(stream(VECTORS, first=5), ROWS, tmp_path)


def test_a_factory_is_faisss_alone():
    assert IndexParams(engine="torch").factory == "Flat"
    with pytest.raises(
        ValueError, match=r"index\.engine=torch searches all vectors: index\.factory='HNSW32' is FAISS's"
    ):
        IndexParams(engine="torch", factory="HNSW32")
