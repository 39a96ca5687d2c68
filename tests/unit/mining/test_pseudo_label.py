"""`pseudo_label`: which candidates become pairs, and whose."""

import numpy as np
import pytest

from noisyir.data.artifacts import NOISY_PAIRS, QUERIES
from noisyir.mining.artifacts import VERDICTS
from noisyir.mining.settings import PseudoLabelParams
from noisyir.mining.stages.hard_negatives import PSEUDO_LABEL
from noisyir.training.artifacts import PSEUDO_PAIRS
from tests.world import table

GIVEN = [("q0", "d0", "train", "shop"), ("q1", "d1", "train", None), ("dev", "d9", "dev", None)]
SCORES = {
    ("q0", "d2"): 0.95, ("q0", "d0"): 0.99,  # q0 is labelled, and d0 is its pair
    ("new", "d3"): 0.91, ("new", "d4"): 0.97, ("new", "d5"): 0.97, ("new", "d6"): 0.9, ("new", "d7"): 0.05,
    ("shy", "d3"): 0.89,
    ("twin", "d9"): 0.99,  # reads like the dev query
    ("dev", "d2"): 0.99, ("test", "d2"): 0.99,
}  # fmt: skip
QUERIES_TABLE = table(
    QUERIES,
    [("q0", "red", "train"), ("q1", "blue", "train"), ("new", "green", "train"), ("shy", "pink", "train"),
     ("twin", "grey", "train"), ("dev", "grey", "dev"), ("test", "white", "test")],
)  # fmt: skip


@pytest.fixture
def label(run_stage_on, store):
    """`label(scores, order=...)`: the pairs made as (query, document), all pairs, and the note."""

    def run(scores=SCORES, order=None, **params):
        rows = [(query, doc, score, 0.1, score <= 0.1, "why") for (query, doc), score in scores.items()]
        rows = rows if order is None else [rows[place] for place in order]
        given = {
            "verdicts": table(VERDICTS, rows) if rows else VERDICTS.schema.empty_table(),
            "pairs": table(NOISY_PAIRS, GIVEN),
            "queries": QUERIES_TABLE.take(np.random.default_rng(len(rows)).permutation(QUERIES_TABLE.num_rows)),
        }
        found = run_stage_on(PSEUDO_LABEL, PseudoLabelParams(**params), given)["pseudo_pairs"]
        (meta,) = [meta for meta in store.builds.all() if meta.stage == "pseudo_label"]
        made = [(row["query_id"], row["doc_id"]) for row in found.to_pylist() if row["score"] is not None]
        return made, found, meta.notes["pseudo_pairs"]

    return run


def test_the_likeliest_candidate_above_the_bound_is_paired_after_all_pairs_given(label):
    made, found, note = label()
    assert made == [("new", "d4"), ("q0", "d2")]  # of d4 and d5, alike, the first by id
    assert found.schema.names == list(PSEUDO_PAIRS.columns)
    rows = found.to_pylist()
    assert [(row["query_id"], row["doc_id"], row["split"], row["source"]) for row in rows[:3]] == GIVEN
    assert [row["score"] for row in rows] == [None, None, None, np.float32(0.97), np.float32(0.95)]
    assert all((row["split"], row["source"]) == ("train", None) for row in rows[3:])
    assert note == {"made": 2, "queries_judged": 6, "queries_paired": 2}


@pytest.mark.parametrize(
    ("params", "made"),
    [
        ({"per_query": 2}, [("new", "d4"), ("new", "d5"), ("q0", "d2")]),
        ({"per_query": None}, [("new", "d4"), ("new", "d5"), ("new", "d3"), ("q0", "d2")]),  # 0.9 is not above 0.9
        ({"per_query": None, "min_positive": 0.96}, [("new", "d4"), ("new", "d5")]),
        ({"min_positive": 0.88}, [("new", "d4"), ("q0", "d2"), ("shy", "d3")]),
        ({"min_positive": 1.0}, []),
    ],
)
def test_bound_and_number_are_settings(label, params, made):
    assert label(**params)[0] == made


def test_held_out_queries_and_those_that_read_like_one_never_get_a_pair(label):
    made, found, _ = label(min_positive=0.0, per_query=None)
    assert {query for query, _ in made} == {"q0", "new", "shy"}
    assert [row["query_id"] for row in found.to_pylist() if row["split"] != "train"] == ["dev"]  # the pair given


def test_the_order_of_rows_is_of_no_account(label):
    order = np.random.default_rng(0).permutation(len(SCORES))
    made, found, _ = label(order=order, per_query=None)
    assert made == [("new", "d4"), ("new", "d5"), ("new", "d3"), ("q0", "d2")]
    assert [(row["query_id"], row["doc_id"]) for row in found.to_pylist()] == [*(row[:2] for row in GIVEN), *made]


def test_without_candidates_the_pairs_stay_as_they_are(label):
    made, found, note = label({})
    assert made == [] and found.num_rows == len(GIVEN) and note["queries_judged"] == 0
