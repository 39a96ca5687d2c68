"""The retrieval stages, run for real: lexical, and from a model to a dense run."""

import pickle
import shutil
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from noisyir.base.errors import DataError
from noisyir.engine.build_stage import run_stage
from noisyir.engine.meta import Ref
from noisyir.engine.remote.parallel import PortableJob
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store
from noisyir.models.bi_encoder import BiEncoder, load_bi_encoder
from noisyir.models.layout import Shape
from noisyir.models.static_tower import StaticTower
from noisyir.models.text_tokenizer import passage_text
from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params, EncodeParams, IndexParams, SearchParams
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.search import SEARCH
from tests.refusals import refuses
from tests.world import pairs_world

WORDS = [f"word{n}" for n in range(50)]
DOCS = [" ".join(np.random.default_rng(n).choice(WORDS, 3 + n % 8)) for n in range(90)]
WORLD = pairs_world(
    "corpus queries",
    [" ".join(DOCS[n].split()[:2]) for n in range(30)],
    [(WORDS[n % 50] if n % 3 else "", DOCS[n]) for n in range(90)],
    splits={f"q{n}": "dev" if n < 20 else "test" for n in range(10, 30)},
)
CORPUS, QUERIES = WORLD["corpus"], WORLD["queries"]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A static bi-encoder of random word vectors, saved as training saves it."""
    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate(["[UNK]", *WORDS])}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    weight = torch.randn(51, 16, generator=torch.Generator().manual_seed(0))
    tower = StaticTower(weight, words.to_str())
    folder = tmp_path_factory.mktemp("model")
    BiEncoder(tower, tower, Shape("static", True, "mean", "cosine", "", "", 16, 16)).save(folder)
    return folder


@pytest.mark.parametrize("engine", ["pyserini", "bm25s"])
def test_bm25_ranks_the_queries_of_the_chosen_splits(run_stage_on, store, engine):
    index = run_stage_on(BM25_INDEX, Bm25IndexParams(engine=engine), {"corpus": CORPUS})["lexical_index"]
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "bm25_index"]
    assert meta.notes["documents"] == {"indexed": 90, "without_terms": 0}
    given = {"lexical_index": index, "queries": QUERIES}
    run = run_stage_on(BM25, Bm25Params(top_k=5, splits=("dev",)), given)["bm25_run"].to_pylist()
    assert {row["query_id"] for row in run} == {f"q{n}" for n in range(10, 20)}
    assert all(row["rank"] <= 5 for row in run)
    assert all(a["score"] >= b["score"] for a, b in pairwise(run) if b["rank"] > a["rank"])
    own = [row["rank"] for row in run if row["doc_id"] == f"d{row['query_id'][1:]}"]
    assert len(own) >= 8 and sum(rank == 1 for rank in own) >= 5
    with refuses(DataError, "retrieval.no_queries_in_splits", setting="bm25.splits", splits="['test']", found="dev"):
        only_dev = QUERIES.filter(pc.equal(QUERIES["split"], "dev"))
        run_stage_on(BM25, Bm25Params(splits=("test",)), {"lexical_index": index, "queries": only_dev})


def encode(run_stage_on, model, runtime=None, **params):
    given = {"model": model, "corpus": CORPUS, "queries": QUERIES}
    return run_stage_on(ENCODE, EncodeParams(**params), given, runtime=runtime)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("how", [{}, {"factory": "HNSW8"}], ids=str)
def test_the_dense_run_ranks_by_the_models_inner_products(run_stage_on, model, dtype, how):
    vectors = encode(run_stage_on, model, dtype=dtype, shard_rows=40)
    assert vectors["doc_vectors"]["doc_row"].to_pylist() == list(range(90))
    index = run_stage_on(INDEX, IndexParams(**how), {"doc_vectors": vectors["doc_vectors"]})["index"]
    given = {"index": index, "query_vectors": vectors["query_vectors"], "corpus": CORPUS}
    run = run_stage_on(SEARCH, SearchParams(top_k=4), given)["dense_run"].to_pylist()

    encoder = load_bi_encoder(model, "cpu")
    texts = map(passage_text, CORPUS["title"].to_pylist(), DOCS)
    with torch.inference_mode():
        docs = encoder.embed(encoder.tokenize(list(texts), "passage"), "passage").numpy()
        asked = encoder.embed(encoder.tokenize(QUERIES["text"].to_pylist()[10:], "query"), "query").numpy()
    scores = asked @ docs.T
    assert [row["query_id"] for row in run] == [f"q{n}" for n in range(10, 30) for _ in range(4)]
    assert [row["rank"] for row in run] == [1, 2, 3, 4] * 20
    found = np.array([row["score"] for row in run]).reshape(20, 4)
    np.testing.assert_allclose(found, -np.sort(-scores, axis=1)[:, :4], atol=1e-6 if dtype == "float32" else 2e-3)
    rows = np.array([int(row["doc_id"][1:]) for row in run]).reshape(20, 4)
    np.testing.assert_allclose(np.take_along_axis(scores, rows, 1), found, atol=1e-6 if dtype == "float32" else 2e-3)


def test_vectors_do_not_depend_on_the_size_of_batches(run_stage_on, model):
    large, small = (
        np.array(
            encode(run_stage_on, model, Runtime(batch_tokens=tokens), shard_rows=rows)["doc_vectors"][
                "vector"
            ].to_pylist()
        )
        for tokens, rows in ((100_000, 1000), (8, 7))
    )
    np.testing.assert_allclose(large, small, atol=1e-6)


def test_shards_taken_over_in_pieces_are_those_of_one_call(run_stage_on, model, store, tmp_path):
    whole = encode(run_stage_on, model, shard_rows=7)
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "encode"]
    other, calls = Store(tmp_path / "other", home=tmp_path), []
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    other.builds.remove(meta)

    def spread(job, function, items):
        for first in reversed(range(0, len(items), 3)):  # in any order, by whoever opens the job
            calls.append(dict(list(items.items())[first : first + 3]))
            there = pickle.loads(pickle.dumps(PortableJob.of(job))).open(job.runtime, Observer())
            yield from there.shards.save_each(calls[-1], function(there, list(calls[-1].values())))

    step = Step("encode", ENCODE, EncodeParams(shard_rows=7), None, {}, meta.key)
    inputs = {name: Ref(**ref) for name, ref in meta.inputs.items()}
    again = run_stage(step, inputs, store=other, runtime=Runtime(), spread=spread)
    assert len(calls) == 6 and sum(map(len, calls)) == 13 + 3  # of 90 documents and of 20 queries
    assert not again.cached and again.meta.artifacts == meta.artifacts
    assert len(whole["doc_vectors"]) == 90


def test_a_split_without_queries_is_an_error_before_encoding(run_stage_on, model):
    given = {"model": model, "corpus": CORPUS, "queries": QUERIES.slice(0, 10)}
    with pytest.raises(
        DataError, match=r"encode.splits=\['dev', 'test'\] names no query; the data has queries in: train"
    ):
        run_stage_on(ENCODE, EncodeParams(), given)


def test_lucene_faiss_and_torch_work_in_one_process(run_stage_on, model):
    index = run_stage_on(BM25_INDEX, Bm25IndexParams(), {"corpus": CORPUS})["lexical_index"]
    lexical = {"lexical_index": index, "queries": QUERIES}
    before = run_stage_on(BM25, Bm25Params(top_k=5), lexical)["bm25_run"]
    vectors = encode(run_stage_on, model)
    faiss_index = run_stage_on(INDEX, IndexParams(factory="IVF4,Flat"), {"doc_vectors": vectors["doc_vectors"]})[
        "index"
    ]
    dense = {"index": faiss_index, "query_vectors": vectors["query_vectors"], "corpus": CORPUS}
    assert run_stage_on(SEARCH, SearchParams(top_k=5), dense)["dense_run"].num_rows == 100
    again = encode(run_stage_on, model, shard_rows=10)
    assert again["doc_vectors"]["vector"].to_pylist() == vectors["doc_vectors"]["vector"].to_pylist()
    assert run_stage_on(BM25, Bm25Params(top_k=6), lexical)["bm25_run"].filter(pc.field("rank") <= 5).equals(before)
