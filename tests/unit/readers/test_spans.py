"""spans, gold_run and confusing: what is labelled, what is a negative, and what is counted instead of labelled."""

from itertools import pairwise

import numpy as np
import pytest

from noisyir.base.errors import DataError
from noisyir.data.artifacts import ANSWERS, PAIRS, QRELS
from noisyir.readers.artifacts import SPANS
from noisyir.readers.settings import ConfusingParams, GoldRunParams, SpansParams
from noisyir.readers.stages.spans import CONFUSING, GOLD, first_words
from noisyir.readers.stages.spans import SPANS as STAGE
from noisyir.retrieval.artifacts import BM25_RUN
from noisyir.retrieval.settings import Bm25IndexParams
from noisyir.retrieval.stages.bm25 import BM25_INDEX
from tests.has_answer import has_answer
from tests.unit.stages.reading_world import CORPUS_ROWS, QRELS_TABLE, QUESTIONS, RUN, TABLES
from tests.world import table

TEXT = {doc_id: text for doc_id, _, _, text in CORPUS_ROWS}


@pytest.fixture
def label(run_stage_on):
    def run(seed=0, tables=TABLES, **settings):
        return run_stage_on(STAGE, SpansParams(**settings), tables, seed=seed)

    return run


def found(spans):
    return {(row["query_id"], row["doc_id"], row["answer"]) for row in spans.to_pylist()}


def test_every_match_in_a_passage_is_an_instance_with_its_place_and_the_runs_score(label):
    spans = label()["spans"].to_pylist()
    assert all(TEXT[row["doc_id"]][row["start"] : row["end"]] == row["answer"] for row in spans)
    assert [(row["query_id"], row["doc_id"], row["answer"], row["score"]) for row in spans] == [
        ("q0", "p0", "Paris", 8.0),
        ("q0", "p1", "Paris", 7.0),
        ("q0", "p1", "paris", 7.0),
        ("q1", "p3", "Bras\u00edlia", 8.0),
        ("q2", "p4", "Oslo", 8.0),
        ("q2", "p5", "Oslo", 7.0),
    ]
    assert spans[4]["start"] > 10_000 and (spans[5]["start"], spans[5]["end"]) == (0, 4)  # long; nothing but answer


def test_passages_without_the_answer_are_negatives_and_titles_are_not_searched(label):
    passages = {(row["query_id"], row["doc_id"]): row for row in label()["passages"].to_pylist()}
    assert set(passages) == {(query, doc) for query, docs in RUN.items() if query != "v0" for doc in docs}
    assert not passages["q0", "p6"]["has_answer"] and not passages["q3", "p0"]["has_answer"]
    for (query_id, doc_id), row in passages.items():
        assert row["has_answer"] == has_answer(QUESTIONS[query_id][2], TEXT[doc_id])
        assert row["rank"] == RUN[query_id].index(doc_id) + 1


def test_questions_without_labels_are_counted_by_reason(label, store):
    label()
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "spans"]
    assert meta.notes["questions"] == {
        "questions": 7,
        "without_answers": 1,
        "without_tokens": 1,
        "without_passages": 1,
        "unmatched": 1,
        "with_spans": 3,
        "spans_cut": 0,
    }


def test_limits_keep_the_best_passages_and_some_questions_of_the_splits(label):
    assert {doc for _, doc, _ in found(label(top_k=1)["spans"])} == {"p0", "p3", "p4"}
    assert found(label(max_spans=1)["spans"]) == found(label(top_k=1)["spans"])
    assert set(label(splits=("dev",))["passages"]["query_id"].to_pylist()) == {"v0"}
    draws = [set(label(seed=seed, max_questions=5)["passages"]["query_id"].to_pylist()) for seed in (1, 1, 2, 3)]
    assert draws[0] == draws[1] and len({frozenset(draw) for draw in draws}) > 1
    assert all(len(draw) <= 5 for draw in draws)


def test_the_order_of_rows_is_of_no_account(label):
    rng = np.random.default_rng(0)
    shuffled = {name: rows.take(rng.permutation(len(rows))) for name, rows in TABLES.items()}
    for name, expected in label().items():
        assert label(tables=shuffled)[name].equals(expected)


def test_data_that_nothing_can_be_labelled_in_is_refused(label):
    nothing = table(ANSWERS, [("q0", [" "]), ("q1", [])])
    with pytest.raises(DataError, match=r"none of 7 questions in spans.splits=\['train'\] has an answer"):
        label(tables={**TABLES, "answers": nothing})
    with pytest.raises(DataError, match="are in none of their 1 passages"):
        label(tables={**TABLES, "run": table(BM25_RUN, [("q0", "p2", 1, 1.0)])})
    with pytest.raises(DataError, match=r"the corpus lacks 1 of 1 needed documents, for example 'gone'"):
        label(tables={**TABLES, "run": table(BM25_RUN, [("q0", "gone", 1, 1.0)])})


def test_given_passages_are_those_judged_relevant_the_most_relevant_first(run_stage_on):
    pairs = table(PAIRS, [("q0", "p0", "train", None), ("q5", "p2", "train", None), ("q3", "p1", "train", None)])
    run = run_stage_on(GOLD, GoldRunParams(), {"qrels": QRELS_TABLE, "pairs": pairs})["gold_run"].to_pylist()
    assert [(row["query_id"], row["doc_id"], row["rank"], row["score"]) for row in run] == [
        ("q0", "p0", 1, 1.0),
        ("q1", "p3", 1, 1.0),
        ("q2", "p5", 1, 2.0),
        ("q2", "p4", 2, 1.0),
        ("q3", "p1", 1, 1.0),  # a pair that nobody judged; q5's is judged irrelevant
    ]
    weak = {"qrels": table(QRELS, [("q0", "p0", 1)]), "pairs": PAIRS.schema.empty_table()}
    with pytest.raises(DataError, match="none of 1 judgements is 2 or more"):
        run_stage_on(GOLD, GoldRunParams(min_relevance=2), weak)


@pytest.fixture
def confuse(run_stage_on):
    index = run_stage_on(BM25_INDEX, Bm25IndexParams(engine="bm25s"), {"corpus": TABLES["corpus"]})["lexical_index"]

    def run(spans, **settings):
        given = {"corpus": TABLES["corpus"], "answers": TABLES["answers"], "lexical_index": index, "spans": spans}
        return run_stage_on(CONFUSING, ConfusingParams(**settings), given)["confusing"].to_pylist()

    return run


def test_confusing_passages_are_the_most_like_it_without_any_answer(confuse, label, store):
    rows = confuse(label()["spans"])
    assert {(row["query_id"], row["doc_id"]) for row in rows} == {("q0", "p0"), ("q0", "p1"), ("q1", "p3")}
    of_france = [row for row in rows if (row["query_id"], row["doc_id"]) == ("q0", "p0")]
    # p6 shares capital and Seine with p0, p2 and p3 share capital; p1 is like it, too, but holds the answer
    assert of_france[0]["confusing"] == "p6" and "p1" not in [row["confusing"] for row in of_france]
    assert [row["rank"] for row in of_france] == list(range(1, len(of_france) + 1))
    assert all(one["score"] >= other["score"] for one, other in pairwise(of_france))
    for row in rows:
        assert row["confusing"] != row["doc_id"]
        assert not has_answer(QUESTIONS[row["query_id"]][2], TEXT[row["confusing"]])
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "confusing"]
    assert meta.notes["passages"]["with_none"] == 2  # p4, p5


def test_a_passage_like_no_other_has_none_and_the_number_is_kept(confuse):
    alone = table(SPANS, [("q2", "p5", 0, 4, "Oslo", 1.0)])
    assert confuse(alone) == []
    spans = table(SPANS, [("q0", "p0", 25, 30, "Paris", 1.0)])
    assert [row["confusing"] for row in confuse(spans, per_passage=1)] == ["p6"]


def test_the_first_words_of_a_passage():
    assert first_words(" a  b\nc d ", 3) == "a b c" and first_words("a", 3) == "a" and first_words("", 3) == ""
