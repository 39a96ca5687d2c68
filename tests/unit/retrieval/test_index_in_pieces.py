"""Inverted lists filled in pieces have the bytes of those that one process fills, and go on where they were killed."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import FanOut, Runtime
from noisyir.engine.stage import Stage
from noisyir.engine.store import Store
from noisyir.retrieval import inverted_lists
from noisyir.retrieval.artifacts import DOC_VECTORS
from noisyir.retrieval.settings import IndexParams
from noisyir.retrieval.stages import index
from noisyir.retrieval.stages.index import INDEX
from tests.conftest import NoParams
from tests.refusals import refuses

ROWS, DIM = 1050, 16
CPU = Runtime(device="cpu")


def write(job):
    drawn = np.random.default_rng(3).standard_normal((ROWS, DIM)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(drawn.ravel()), DIM)
    job.write("doc_vectors", pa.table({"doc_row": pa.array(range(ROWS), pa.int32()), "vector": column}))


VECTORS = Stage("made_vectors", 1, NoParams, {}, {"doc_vectors": DOC_VECTORS}, write)


@pytest.fixture
def build(tmp_path, monkeypatch):
    """The bytes of an index, made in a store of that name in pieces of two batches, or whole."""

    def build(name, factory, *, pieces, spread=None):
        monkeypatch.setattr(index, "_VECTORS_AT_ONCE", 100)
        monkeypatch.setattr(index, "_BATCHES_A_PIECE", 2 if pieces else 10**6)
        store, plan = Store(tmp_path / name, home=tmp_path), Plan(0)
        made = plan.add(VECTORS, NoParams())
        plan.add(INDEX, IndexParams(factory=factory), **made)
        first, second = plan.steps
        given = run_stage(first, {}, store=store, runtime=CPU).meta.ref("doc_vectors")
        meta = run_stage(second, {"doc_vectors": given}, store=store, runtime=CPU, spread=spread).meta
        return (store.builds.folder(meta.ref("index")) / "index.faiss").read_bytes()

    return build


@pytest.fixture
def coded(monkeypatch):
    """The first rows of the pieces of which codes were made; of the row in `dies`, none are."""

    def code(trained, batches, first):
        if first in coded.dies:
            raise KeyboardInterrupt
        coded.append(first)
        return real(trained, batches, first)

    class Coded(list):
        dies: tuple[int, ...] = ()

    real, coded = inverted_lists.coded, Coded()
    monkeypatch.setattr(inverted_lists, "coded", code)
    return coded


ALL = [0, 200, 400, 600, 800, 1000]


@pytest.mark.parametrize("factory", ["IVF8,PQ4x4", "PCA8,IVF8,PQ4x4", "IVF300,Flat", "IVF8_HNSW4,SQ8"])
def test_pieces_give_the_bytes_of_one_process(build, coded, factory):
    assert build("pieces", factory, pieces=True) == build("whole", factory, pieces=False)
    assert coded == ALL


@pytest.mark.parametrize("factory", ["HNSW8", "IVF8,PQ4x4fs", "PQ4x4"])
def test_what_has_no_lists_of_codes_is_made_whole(build, coded, factory):
    assert build("pieces", factory, pieces=True) == build("whole", factory, pieces=False)
    assert coded == []


def test_a_killed_build_goes_on_behind_its_pieces(build, coded, monkeypatch):
    coded.dies = (600,)
    with pytest.raises(KeyboardInterrupt):
        build("pieces", "IVF8,PQ4x4", pieces=True)
    coded.dies = ()
    monkeypatch.setattr(index, "train_lists", None)  # trained once
    in_pieces = build("pieces", "IVF8,PQ4x4", pieces=True)
    assert coded == ALL
    monkeypatch.undo()
    assert in_pieces == build("whole", "IVF8,PQ4x4", pieces=False)


@pytest.mark.parametrize("factory", ["IVF2000,Flat", "IVF8,PQ5", "IVFx,PQ"])
def test_what_faiss_cannot_make_is_said_as_ever(build, factory):
    with refuses(ConfigError, "retrieval.bad_factory", factory=factory, rows=1050, dim=16):
        build("pieces", factory, pieces=True)


def test_rows_that_skip_one_are_refused():
    batch = pa.record_batch({"doc_row": pa.array([5, 7], pa.int32()), "vector": pa.array([[0.0], [1.0]])})
    with refuses(DataError, "retrieval.rows_not_consecutive", first=5):
        inverted_lists.coded(None, [batch], 5)


@pytest.mark.slow
def test_workers_of_a_cluster_make_the_pieces(build, tmp_path):
    from noisyir.engine.remote.parallel import Cluster

    runtime = Runtime(device="cpu", fan_out=FanOut(engine="ray", workers=2))
    with Cluster(runtime) as cluster:
        by_workers = build("pieces", "IVF8,PQ4x4", pieces=True, spread=cluster.spread)
    assert by_workers == build("whole", "IVF8,PQ4x4", pieces=False)
