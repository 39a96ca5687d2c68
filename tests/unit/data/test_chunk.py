"""Documents become passages; pairs get the passage that their query is about, judgements hold for all of them."""

import numpy as np
import pytest

from noisyir.data.artifacts import ANSWERS, CORPUS, CUT_PASSAGES, GIVEN_NEGATIVES, PAIRS, QRELS, QUERIES
from noisyir.data.settings import ChunkParams
from noisyir.data.stages.chunk import CHUNK
from noisyir.methods.plans.experiment import Experiment
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.settings import BestPassagesParams
from noisyir.retrieval.stages.search import BEST_PASSAGES
from tests.world import table

LONG = "A cat sat here. Dogs bark at night. Birds sing at dawn."


@pytest.fixture
def data():
    return {
        "corpus": table(CORPUS, [("long", 0, "Animals", LONG), ("short", 1, "", "A cat."), ("long#1", 2, "", "Fish.")]),
        "queries": table(QUERIES, [("q1", "who barks? dogs", "train"), ("q2", "birds", "dev"), ("q3", "cat", "train")]),
        "answers": table(ANSWERS, [("q3", ["at night"])]),
        "pairs": table(
            PAIRS, [("q1", "long", "train", "s"), ("q2", "long", "dev", None), ("q3", "long", "train", "s")]
        ),
        "given_negatives": table(GIVEN_NEGATIVES, [("q1", "short", 0.5), ("q3", "long#1", None)]),
        "qrels": table(QRELS, [("q2", "long", 2), ("q2", "short", 0)]),
    }


def test_pairs_get_the_passage_of_their_query_and_judgements_hold_for_all(run_stage_on, data):
    made = run_stage_on(CHUNK, ChunkParams(words=5), data)
    texts = dict(zip(made["corpus"]["doc_id"].to_pylist(), made["corpus"]["text"].to_pylist(), strict=True))
    assert list(texts) == ["long##0", "long##1", "long##2", "short", "long#1"]  # long#1 is a document already
    assert list(texts.values())[:3] == ["A cat sat here.", "Dogs bark at night.", "Birds sing at dawn."]
    assert made["corpus"]["doc_row"].to_pylist() == [0, 1, 2, 3, 4]
    assert set(made["corpus"]["title"].to_pylist()[:3]) == {"Animals"}
    assert made["cut_passages"]["document"].to_pylist() == ["long"] * 3 + ["short", "long#1"]
    # q3 has a word of the first passage, and its answer stands in the second
    assert made["pairs"]["doc_id"].to_pylist() == ["long##1", "long##2", "long##1"]
    assert made["pairs"].drop(["doc_id"]).equals(data["pairs"].drop(["doc_id"]))
    assert made["given_negatives"].equals(data["given_negatives"])
    judged = {(row["query_id"], row["doc_id"]): row["relevance"] for row in made["qrels"].to_pylist()}
    passages = [f"long##{number}" for number in range(3)]
    assert judged == {
        **{("q2", name): 2 for name in passages},
        ("q2", "short"): 0,
        **{(query, name): 1 for query in ("q1", "q3") for name in passages},
    }


def test_a_document_stands_where_its_best_passage_does(run_stage_on):
    rng = np.random.default_rng(3)
    passages = [(f"d{number // 3}#{number % 3}", f"d{number // 3}") for number in range(60)]
    scores = {(f"q{query}", name): rng.random() for query in (2, 1) for name, _ in passages}
    rows = []
    for query in ("q2", "q1"):
        names = sorted((name for name, _ in passages), key=lambda name: -scores[query, name])
        rows += [(query, name, rank, scores[query, name]) for rank, name in enumerate(names, 1)]
    given = {"run": table(DENSE_RUN, rows), "passages": table(CUT_PASSAGES, passages)}
    made = run_stage_on(BEST_PASSAGES, BestPassagesParams(top_k=7), given)["dense_run"]
    for query in ("q1", "q2"):
        best = {doc: max(scores[query, name] for name, of in passages if of == doc) for _, doc in passages}
        wanted = sorted(best, key=lambda doc: -best[doc])[:7]
        found = [row for row in made.to_pylist() if row["query_id"] == query]
        assert [row["doc_id"] for row in found] == wanted and [row["rank"] for row in found] == list(range(1, 8))
        np.testing.assert_allclose([row["score"] for row in found], [best[doc] for doc in wanted], rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"chunk": {"words": 10, "overlap": 5}}, "below half"),
        ({"chunk": {"words": 10}, "hide": {"kind": "near_duplicates", "rate": 0.5}}, "near_duplicates"),
        ({"chunk": {"words": 10}, "noise": {"kind": "half_answer", "rate": 0.5}}, "half_answer"),
        ({"chunk": {"words": 10}, "task": "reader"}, "windows"),
    ],
)
def test_what_does_not_go_with_passages_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        Experiment(name="x", **settings)
