"""By which queries the best is chosen, and a hybrid weighed: by dev's, where every system searched for them."""

import pyarrow as pa
import pytest

from noisyir.data.artifacts import CORPUS, QRELS, QUERIES
from noisyir.evaluation.settings import RecommendParams, ScoreParams
from noisyir.evaluation.stages.compare import RECOMMEND
from noisyir.evaluation.stages.score import SCORE
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.measures import searched_for_dev
from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params, HybridParams
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.fuse import FUSE

QUERIES_OF = {split: [f"{split}{number}" for number in range(30)] for split in ("dev", "test")}
EVERY = [query_id for ids in QUERIES_OF.values() for query_id in ids]


def table(schema, rows):
    empty = {pa.string(): "", pa.float32(): 1.0, pa.float64(): 1.0, pa.int32(): 1}
    rows = [{field.name: empty.get(field.type) for field in schema} | row for row in rows]
    return pa.Table.from_pylist(rows, schema)


GIVEN = {
    "queries": table(QUERIES.schema, [{"query_id": of, "text": of, "split": of.rstrip("0123456789")} for of in EVERY]),
    "qrels": table(QRELS.schema, [{"query_id": of, "doc_id": f"right-{of}", "relevance": 1} for of in EVERY]),
}


def run(splits, right):
    """A document a query, the right one of so many of ten queries."""
    rows = [
        {"query_id": of, "doc_id": f"{'right' if number % 10 < right else 'wrong'}-{of}"}
        for split in splits
        for number, of in enumerate(QUERIES_OF[split])
    ]
    return table(DENSE_RUN.schema, rows)


def chosen(run_stage_on, lexical, dense):
    """The standings of two systems, and how both are fused."""
    runs, scoring = {"bm25": lexical, "dpr": dense}, ScoreParams(splits=("test",), measures=("nDCG@10",))
    metrics = {name: run_stage_on(SCORE, scoring, {**GIVEN, "run": found})["metrics"] for name, found in runs.items()}
    given = {**GIVEN, "metrics": metrics, "runs": runs}
    fused = run_stage_on(FUSE, HybridParams(), {**GIVEN, "lexical": lexical, "dense": dense})
    return run_stage_on(RECOMMEND, RecommendParams(), given)["standings"], fused["fusion"]


@pytest.mark.parametrize("encoded", [("dev", "test"), ("test",)])
def test_dev_decides_only_where_every_system_searched_for_it(run_stage_on, caplog, encoded):
    standings, fusion = chosen(run_stage_on, run(("dev", "test"), 2), run(encoded, 8))
    if "dev" in encoded:
        assert {*standings["split"].to_pylist()} == {"dev", "test"}
        assert fusion["queries"].to_pylist() == [30]
    else:
        assert {*standings["split"].to_pylist()} == {"test"}
        assert "dpr did not search for the dev queries" in caplog.text and "encode.splits" in caplog.text
        assert fusion.select(["weight", "queries"]).to_pylist() == [{"weight": 0.5, "queries": 0}]


def test_a_search_that_found_nothing_keeps_dev_and_is_worth_nothing(run_stage_on, caplog):
    """As BM25 with queries of another script."""
    standings, fusion = chosen(run_stage_on, DENSE_RUN.schema.empty_table(), run(("dev", "test"), 8))
    rows = [row for row in standings.to_pylist() if row["split"] == "dev"]
    assert {row["value"] for row in rows if row["system"] == "bm25"} == {0.0}
    assert sum(row["value"] for row in rows if row["system"] == "dpr") == 24.0
    assert fusion["queries"].to_pylist() == [30] and "did not search" not in caplog.text


@pytest.mark.parametrize(("splits", "searched"), [(("dev", "test"), True), (("test",), False)])
def test_a_search_tells_by_its_settings_whether_it_looked_for_dev(run_stage_on, store, splits, searched):
    corpus = table(CORPUS.schema, [{"doc_id": "a", "doc_row": 0, "title": "", "text": "test1"}])
    index = run_stage_on(BM25_INDEX, Bm25IndexParams(engine="bm25s"), {"corpus": corpus})["lexical_index"]
    tables = {"lexical_index": index, "queries": GIVEN["queries"]}
    found = run_stage_on(BM25, Bm25Params(splits=splits), tables)["bm25_run"]
    [meta] = [meta for meta in store.builds.all() if meta.stage == "bm25"]
    assert found["query_id"].to_pylist() == ["test1"]  # dev queries have no hit either way
    assert searched_for_dev(found, meta.ref("bm25_run"), store, QUERIES_OF["dev"]) == searched
