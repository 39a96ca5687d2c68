"""Evidence of DistDR: the best ranked documents that hold an answer, whatever the training pairs say."""

import pytest

from noisyir.base.errors import DataError
from noisyir.mining.settings import EvidenceParams
from noisyir.mining.stages.evidence import EVIDENCE
from noisyir.retrieval.artifacts import BM25_RUN
from tests.refusals import refuses
from tests.world import pairs_world, table

TEXTS = ["Accra is the capital", "the old capital", "a port", "Accra, a port", "Lima"]
QUERIES = {"qa": "capital of Ghana", "qb": "capital of Peru", "qc": "unknown", "qd": "held out"}


def world(answers):
    tables = pairs_world(
        "queries pairs corpus answers",
        QUERIES,
        [("", text) for text in TEXTS],
        splits={"qd": "dev"},
        pairs=[("qa", "d1"), ("qb", "d2"), ("qd", "d0")],
        answers=answers,
    )
    ranks = {"qa": ["d1", "d3", "d0"], "qb": ["d0", "d4"], "qc": ["d0"], "qd": ["d3"]}
    hits = [(query, doc, rank, 0.0) for query, docs in ranks.items() for rank, doc in enumerate(docs, 1)]
    return tables | {"run": table(BM25_RUN, hits)}


@pytest.mark.parametrize(("per_query", "of_qa"), [(1, ["d3"]), (2, ["d3", "d0"])])
def test_queries_are_paired_with_the_best_ranked_documents_that_hold_an_answer(run_stage_on, per_query, of_qa):
    given = world({"qa": ["ACCRA"], "qb": ["Lima"], "qd": ["Accra"]})
    found = run_stage_on(EVIDENCE, EvidenceParams(per_query=per_query), given)["evidence_pairs"].to_pylist()
    pairs = [(row["query_id"], row["doc_id"], row["split"]) for row in found]
    # the pairs of qa and qb name no answer and are gone; qc has no answer; of held-out queries the pair stays
    assert sorted(pairs) == sorted(
        [*(("qa", doc, "train") for doc in of_qa), ("qb", "d4", "train"), ("qd", "d0", "dev")]
    )


def test_data_without_answers_in_reach_is_refused(run_stage_on):
    with refuses(DataError, "mining.no_evidence", queries=3):
        run_stage_on(EVIDENCE, EvidenceParams(), world({"qa": ["Quito"]}))
