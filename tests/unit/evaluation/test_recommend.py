"""By which queries the best is chosen, and a hybrid weighed: by dev's, where every system searched for them."""

import pyarrow as pa
import pytest

from noisyir.data.artifacts import QRELS, QUERIES
from noisyir.evaluation.settings import RecommendParams, ScoreParams
from noisyir.evaluation.stages.compare import RECOMMEND
from noisyir.evaluation.stages.score import SCORE
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.settings import HybridParams
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


@pytest.mark.parametrize("encoded", [("dev", "test"), ("test",)])
def test_dev_decides_only_where_every_system_searched_for_it(run_stage_on, caplog, encoded):
    runs = {"bm25": run(("dev", "test"), 2), "dpr": run(encoded, 8)}
    scoring = ScoreParams(splits=("test",), measures=("nDCG@10",))
    metrics = {name: run_stage_on(SCORE, scoring, {**GIVEN, "run": found})["metrics"] for name, found in runs.items()}
    standings = run_stage_on(RECOMMEND, RecommendParams(), {**GIVEN, "metrics": metrics, "runs": runs})["standings"]
    fused = run_stage_on(FUSE, HybridParams(), {**GIVEN, "lexical": runs["bm25"], "dense": runs["dpr"]})
    if "dev" in encoded:
        assert {*standings["split"].to_pylist()} == {"dev", "test"}
        assert fused["fusion"]["queries"].to_pylist() == [30]
    else:
        assert {*standings["split"].to_pylist()} == {"test"}
        assert "dpr did not search for the dev queries" in caplog.text and "encode.splits" in caplog.text
        assert fused["fusion"].select(["weight", "queries"]).to_pylist() == [{"weight": 0.5, "queries": 0}]
