"""Exact search in parts is that of one index: also of equal scores, also where the cut goes through them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.retrieval import index as indexing
from noisyir.retrieval.index import fill_index, save_index, train_index
from noisyir.retrieval.vector_search import best, open_vectors
from tests.unit.retrieval.test_index import stream


def saved(few, vectors, folder):
    folder.mkdir()

    def build(batches, rows, where):
        rng = np.random.default_rng(0)
        index = train_index(lambda: batches, rows, "Flat", train_rows=1, rng=rng, threads=1, device="cpu")
        save_index(fill_index(index, batches, rows, "Flat"), "Flat", where)

    if indexing.ROWS_A_PART < len(vectors):
        indexing.build_parts(stream(vectors, size=7), len(vectors), folder, build)
    else:
        build(list(stream(vectors)), len(vectors), folder)
    return open_vectors(folder, probes=1, breadth=1, device="cpu", threads=1, few_queries=few)


@pytest.mark.parametrize("few", [False, True], ids=["faiss", "torch"])
@given(data=st.data())
def test_parts_give_what_all_pairs_give(few, data, tmp_path_factory):
    rows, top_k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 30))
    size = data.draw(st.integers(1, 25))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    # whole numbers, so that products are exact in any order and many are equal
    vectors, queries = (rng.integers(-1, 2, (n, 3)).astype(np.float32) for n in (rows, 5))
    products = queries @ vectors.T
    wanted = np.lexsort((np.broadcast_to(np.arange(rows), products.shape), -products))[:, :top_k]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "ROWS_A_PART", size)
        index = saved(few, vectors, tmp_path_factory.mktemp("index") / "index")
    scores, found = best(index, queries, top_k)
    assert found.tolist() == wanted.tolist()
    assert scores.tolist() == np.take_along_axis(products, wanted, axis=1).tolist()


def test_a_part_has_the_bits_of_the_whole(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    vectors, queries = (rng.standard_normal((n, 24)).astype(np.float32) for n in (3 * 4096 + 77, 50))
    vectors[9000:9500] = vectors[:500]
    whole = best(saved(False, vectors, tmp_path / "whole"), queries, 100)
    monkeypatch.setattr(indexing, "ROWS_A_PART", 4096)
    cut = best(saved(False, vectors, tmp_path / "cut"), queries, 100)
    assert len(json.loads((tmp_path / "cut" / "about.json").read_text())["parts"]) == 4
    assert [array.tobytes() for array in whole] == [array.tobytes() for array in cut]
