"""rerank: the ranker's order on top, the run's own below, and a run that can be scored as any other."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import DataError
from noisyir.data.artifacts import QRELS
from noisyir.engine.runtime import Runtime
from noisyir.evaluation.settings import ScoreParams
from noisyir.evaluation.stages.score import SCORE
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
from noisyir.models.ranker import initial_ranker
from noisyir.models.settings import InitRankerParams
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.settings import RerankParams
from noisyir.retrieval.stages.rerank import RERANK, lowered
from tests.refusals import refuses
from tests.tiny_models import tiny_bert
from tests.world import pairs_world, table

QUERY = {f"q{i}": f"w{i} w{i + 20}" for i in range(4)}
DOCUMENTS = {f"d{i}": f"w{i} " * (1 + i % 3) for i in range(30)}
RUN = [(f"q{q}", f"d{(q * 5 + r) % 30}", r + 1, 5.0 - r) for q in range(4) for r in range(8 + q)]
TABLES = {"run": table(DENSE_RUN, RUN)} | pairs_world(
    "queries corpus",
    QUERY,
    {name: ("w59" if n % 2 else "", text) for n, (name, text) in enumerate(DOCUMENTS.items())},
    splits=dict.fromkeys(QUERY, "test"),
)


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranker")
    params = InitRankerParams(layers=1, max_len=24)
    initial_ranker(tiny_bert(tmp_path_factory.mktemp("bert")), params, seed=0)[0].save(folder)
    return folder


@pytest.fixture
def rerank(run_stage_on, ranker):
    def run(depth, **more):
        given = {**TABLES, "ranker": ranker, **more}
        return run_stage_on(RERANK, RerankParams(depth=depth), given, runtime=Runtime(device="cpu"))["reranked_run"]

    return run


def by_query(run):
    found = {query_id: [] for query_id in QUERY}
    for row in run.to_pylist():
        assert row["rank"] == len(found[row["query_id"]]) + 1
        found[row["query_id"]].append((row["doc_id"], row["score"]))
    return found


def test_the_first_documents_are_in_the_rankers_order_and_the_others_below_in_their_own(rerank, ranker):
    judge = load_cross_encoder(ranker, 24, "cpu")
    for query_id, found in by_query(rerank(6)).items():
        was = [doc_id for query, doc_id, _, _ in RUN if query == query_id]
        texts = [f"w59 {DOCUMENTS[i]}" if int(i[1:]) % 2 else DOCUMENTS[i] for i in was[:6]]
        logits = judge.logits(TextPairs([QUERY[query_id]] * 6, texts), 4096, lambda _: None)
        order = np.argsort(-logits, kind="stable")
        assert [doc_id for doc_id, _ in found] == [was[row] for row in order] + was[6:]
        assert [score for _, score in found[:6]] == pytest.approx(logits[order].tolist(), abs=1e-5)
        scores = [score for _, score in found]
        assert all(one > other for one, other in pairwise(scores))
        assert np.diff(scores[6:]) == pytest.approx(-1.0, abs=1e-5), "differences below stay"


def test_a_depth_beyond_the_run_reads_all_of_it_and_the_order_of_rows_is_of_no_account(rerank):
    shuffled = TABLES["run"].take(np.random.default_rng(0).permutation(len(RUN)))
    deep = rerank(100)
    assert deep.num_rows == len(RUN) and {len(found) for found in by_query(deep).values()} == {8, 9, 10, 11}
    assert rerank(100, run=shuffled).equals(deep)
    assert by_query(rerank(1)) != by_query(deep)
    assert [doc_id for doc_id, _ in by_query(rerank(1))["q1"]] == [doc for query, doc, _, _ in RUN if query == "q1"]


def test_a_reranked_run_is_scored_as_any_run(run_stage_on, rerank):
    qrels = table(QRELS, [(query, doc, 1) for query, doc, rank, _ in RUN if rank == 3])
    params = ScoreParams(measures=("RR@10",))
    given = {"qrels": qrels, "queries": TABLES["queries"]}
    metrics = run_stage_on(SCORE, params, {**given, "run": rerank(8)})["metrics"].to_pylist()
    found = {row["query_id"]: row["value"] for row in metrics}
    for query_id, ranked in by_query(rerank(8)).items():
        (relevant,) = [doc for query, doc, rank, _ in RUN if query == query_id and rank == 3]
        assert found[query_id] == pytest.approx(1 / (1 + [doc for doc, _ in ranked].index(relevant)))


def test_an_empty_run_stays_empty(rerank):
    assert rerank(3, run=DENSE_RUN.schema.empty_table()).num_rows == 0


def test_what_has_no_text_is_named(rerank):
    with refuses(DataError, "retrieval.unknown_ids_in_run", rows=4, of="documents", example="d9"):
        gone = TABLES["corpus"].filter(pa.compute.not_equal(TABLES["corpus"]["doc_id"], "d9"))
        rerank(11, corpus=gone, run=table(DENSE_RUN, [(f"q{i}", "d9", 1, 1.0) for i in range(4)]))
    with refuses(DataError, "retrieval.unknown_ids_in_run", rows=1, of="queries", example="who"):
        rerank(5, run=table(DENSE_RUN, [("who", "d1", 1, 1.0)]))


def test_scores_below_are_shifted_by_one_amount_a_query():
    query, place = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 2, 3, 0, 1])
    scores = np.array([-2.0, 3.0, 10.0, 9.5, 1.0, 0.5])
    assert lowered(scores, query, place, 2).tolist() == pytest.approx([-2.0, 3.0, -2.001, -2.501, 1.0, 0.5])
