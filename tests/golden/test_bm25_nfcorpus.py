"""BM25 on NFCorpus: the published nDCG@10 is 0.322 (BEIR's table for Anserini's flat index, k1 0.9, b 0.4)."""

import json
from pathlib import Path

import ir_measures
import pytest

from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from tests.world import pairs_world

NFCORPUS = Path(__file__).parents[2].parent / "shared" / "data" / "beir" / "nfcorpus"


@pytest.mark.skipif(not NFCORPUS.exists(), reason=f"needs the NFCorpus collection in {NFCORPUS}")
@pytest.mark.parametrize("engine", ["pyserini", "bm25s"])
def test_ndcg_is_the_published_one(run_stage_on, engine):
    docs = [json.loads(line) for line in (NFCORPUS / "corpus.jsonl").open()]
    judged = [line.split() for line in (NFCORPUS / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    asked = {query for query, _, _ in judged}
    queries = [query for line in (NFCORPUS / "queries.jsonl").open() if (query := json.loads(line))["_id"] in asked]
    given = pairs_world(
        "corpus queries",
        {query["_id"]: query["text"] for query in queries},
        {doc["_id"]: (doc["title"], doc["text"]) for doc in docs},
        splits={query["_id"]: "test" for query in queries},
    )
    index = run_stage_on(BM25_INDEX, Bm25IndexParams(engine=engine), {"corpus": given["corpus"]})["lexical_index"]
    params = Bm25Params(splits=("test",))
    run = run_stage_on(BM25, params, {"lexical_index": index, "queries": given["queries"]})["bm25_run"]

    qrels = [ir_measures.Qrel(query, doc, int(grade)) for query, doc, grade in judged]
    hits = [ir_measures.ScoredDoc(row["query_id"], row["doc_id"], row["score"]) for row in run.to_pylist()]
    ndcg = ir_measures.nDCG @ 10
    assert ir_measures.calc_aggregate([ndcg], qrels, hits)[ndcg] == pytest.approx(0.322, abs=0.01)
