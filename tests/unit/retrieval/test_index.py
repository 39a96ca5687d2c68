"""FAISS indexes: exactness, determinism, memory-mapped opening, and errors a user can act on."""

import json

import faiss
import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.retrieval.index import fill_index, open_index, save_index, train_index
from noisyir.retrieval.vector_search import ids_by_row, open_vectors, search
from tests.refusals import refuses

ROWS, DIM = 2000, 32
VECTORS = np.random.default_rng(3).standard_normal((ROWS, DIM)).astype(np.float32)
QUERIES = np.random.default_rng(4).standard_normal((50, DIM)).astype(np.float32)
DOC_IDS = pa.array([f"d{row}" for row in range(ROWS)])


def stream(vectors, size=300, first=0):
    for start in range(0, len(vectors), size):
        some = vectors[start : start + size]
        column = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), some.shape[1])
        rows = pa.array(np.arange(start, start + len(some)) + first, pa.int32())
        yield pa.record_batch({"doc_row": rows, "vector": column})


def build(factory, vectors=VECTORS, *, train_rows=1500, threads=2, first=0, seed=0):
    rng = np.random.default_rng(seed)

    def batches():
        return stream(vectors, first=first)

    rows = len(vectors)
    index = train_index(batches, rows, factory, train_rows=train_rows, rng=rng, threads=threads, device="cpu")
    return fill_index(index, batches(), rows, factory)


def found(index, queries=QUERIES, top_k=10):
    return np.array(search(index, queries, DOC_IDS, top_k).doc_ids.to_pylist()).reshape(len(queries), -1)


def exact(vectors=VECTORS, queries=QUERIES, top_k=10):
    return np.array([f"d{row}" for row in np.argsort(-(queries @ vectors.T), axis=1)[:, :top_k].ravel()]).reshape(
        len(queries), top_k
    )


def test_flat_search_is_exact_and_scores_are_inner_products():
    hits = search(build("Flat"), QUERIES, DOC_IDS, 10)
    assert hits.doc_ids.to_pylist() == exact().ravel().tolist()
    assert hits.scores.dtype == np.float32
    np.testing.assert_allclose(hits.scores, np.sort(QUERIES @ VECTORS.T)[:, ::-1][:, :10].ravel(), rtol=1e-5)


@pytest.mark.parametrize(("queries", "at_once"), [(QUERIES, 7), (QUERIES, 1999), (QUERIES[:1], 10**6)])
def test_torch_finds_in_a_flat_index_what_faiss_finds(queries, at_once, tmp_path, monkeypatch):
    monkeypatch.setattr("noisyir.retrieval.exact._ROWS_AT_ONCE", at_once)
    save_index(build("Flat"), "Flat", tmp_path)
    how = {"probes": 1, "breadth": 1, "device": "cpu", "threads": 2}
    theirs, ours = (search(open_vectors(tmp_path, **how, few_queries=few), queries, DOC_IDS, 10) for few in (0, 1))
    assert ours.doc_ids == theirs.doc_ids
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5)
    assert ours.scores.dtype == np.float32


@pytest.mark.parametrize(("factory", "least"), [("HNSW32", 0.9), ("IVF16,Flat", 0.9), ("IVF16,PQ8x4", 0.2)])
def test_approximate_indexes_find_most_of_the_best(factory, least, tmp_path):
    save_index(build(factory), factory, tmp_path)
    index = open_index(tmp_path, probes=16, breadth=128)
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(found(index), exact(), strict=True)]
    assert np.mean(shared) >= least


@pytest.mark.parametrize("factory", ["Flat", "HNSW32", "IVF16,Flat", "IVF4,PQ2x4"])
def test_equal_input_gives_equal_bytes_whatever_the_number_of_threads(factory, tmp_path):
    for name, threads in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        save_index(build(factory, threads=threads), factory, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_training_sample_depends_on_the_seed():
    one, two, again = (
        faiss.serialize_index(build("IVF16,Flat", train_rows=700, seed=seed)).tobytes() for seed in (0, 1, 0)
    )
    assert one == again != two


def test_half_precision_vectors_are_searched_as_what_they_are():
    half = VECTORS.astype(np.float16)
    assert found(build("Flat", half)).tolist() == exact(half.astype(np.float32)).tolist()


def test_search_settings_reach_the_index(tmp_path):
    save_index(build("IVF16,Flat"), "IVF16,Flat", tmp_path)
    one, all_lists = (found(open_index(tmp_path, probes=probes, breadth=16)) for probes in (1, 16))
    assert all_lists.tolist() == exact().tolist() != one.tolist()
    save_index(build("HNSW8"), "HNSW8", tmp_path)
    assert faiss.downcast_index(open_index(tmp_path, probes=1, breadth=77)).hnsw.efSearch == 77
    about = json.loads((tmp_path / "about.json").read_text())
    assert about == {"dim": DIM, "factory": "HNSW8", "metric": "inner_product", "rows": ROWS}


def test_equal_scores_are_in_the_order_of_doc_row():
    hits = search(build("Flat", np.ones((50, 4), np.float32)), np.ones((1, 4), np.float32), DOC_IDS[:50], 50)
    assert hits.doc_ids.to_pylist() == [f"d{row}" for row in range(50)]


def test_fewer_documents_than_asked_for_give_fewer_hits():
    few = search(build("Flat", VECTORS[:3]), QUERIES[:2], DOC_IDS[:3], 10)
    assert few.counts.tolist() == [3, 3] and len(few.scores) == len(few.doc_ids) == 6
    ivf = build("IVF16,Flat")
    faiss.extract_index_ivf(ivf).nprobe = 1
    short = search(ivf, QUERIES, DOC_IDS, 1000)
    assert short.counts.max() < 1000 and short.counts.sum() == len(short.scores) == len(short.doc_ids)


@pytest.mark.parametrize(
    ("factory", "rows", "said"),
    [
        ("Flatt", 100, "could not parse index string Flatt"),
        ("PQ7", 300, "multiple of the number of subquantizers"),
        ("IVF64,Flat", 10, "Number of training points (10) should be at least as large as number of clusters (64)"),
        ("IDMap,Flat", 10, "add"),
    ],
)
def test_what_faiss_cannot_build_is_one_clear_line(factory, rows, said):
    with pytest.raises(ConfigError) as caught:
        build(factory, VECTORS[:rows])
    message = str(caught.value)
    assert said in message and f"index.factory={factory!r}" in message and f"{rows} vectors of {DIM}" in message
    assert "\n" not in message and ".cpp" not in message


def test_rows_that_do_not_count_up_from_0_are_refused():
    with refuses(DataError, "retrieval.rows_not_consecutive"):
        build("Flat", first=5)


def test_ids_are_looked_up_by_row_however_the_corpus_is_sorted():
    corpus = pa.table({"doc_id": ["c", "a", "b"], "doc_row": pa.array([2, 0, 1], pa.int32())})
    assert ids_by_row(corpus).to_pylist() == ["a", "b", "c"]
