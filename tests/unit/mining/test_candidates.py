"""Candidates: what is left out and by which rule, and similarities against a slow look at each pair."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import PAIRS
from noisyir.mining.settings import CandidatesParams, PositiveVectorsParams
from noisyir.mining.stages.candidates import CANDIDATES
from noisyir.mining.stages.positive_vectors import POSITIVE_VECTORS
from noisyir.retrieval.artifacts import DENSE_RUN
from tests.world import pairs_world, table

DOCS, QUERIES, DIM = 40, 12, 6


def vector_table(values, ids, name):
    """The vectors in an order of their own."""
    order = np.random.default_rng(3).permutation(len(ids))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values[order].ravel()), DIM)
    return pa.table({name: ids.take(pa.array(order)), "vector": lists})


QUERY_IDS = pa.array([*(f"q{n}" for n in range(QUERIES)), "dev", "again"])
DOC_IDS = pa.array([f"d{n}" for n in range(DOCS)])
QUERY_VECTORS = np.random.default_rng(1).normal(size=(QUERIES + 2, DIM)).astype(np.float32)
DOC_VECTORS = np.random.default_rng(2).normal(size=(DOCS, DIM)).astype(np.float32)


def data(*, pairs=(), held_out=(("dev", "d30"), ("again", "d31")), answers=(), texts=None, vectors=True):
    """Query n ranks all documents by its own permutation; d(n) and d(n + 1) are its pairs.

    `again` has q2's text; it is a test query, which has judgements and no pairs.
    """
    ranked = [np.random.default_rng(n).permutation(DOCS) for n in range(QUERIES)]
    hits = [(f"q{n}", f"d{doc}", rank) for n in range(QUERIES) for rank, doc in enumerate(ranked[n], 1)]
    hits += [("dev", f"d{doc}", doc + 1) for doc in range(DOCS)]
    given = [(f"q{n}", f"d{n + more}", "train") for n in range(QUERIES) for more in (0, 1)]
    given += [(*pair, "train") for pair in pairs] + [(*pair, "dev") for pair in held_out if pair[0] == "dev"]
    tables = pairs_world(
        "queries qrels corpus answers",
        {**{f"q{n}": f"question {n}" for n in range(QUERIES)}, "dev": "another", "again": "question 2"},
        [(f"title {n}", (texts or {}).get(n, f"word{n} and more")) for n in range(DOCS)],
        splits={"dev": "dev", "again": "test"},
        judged=[(*pair, 1) for pair in held_out] + [("again", "d20", 0), ("q2", "d25", 1)],  # training's are not read
        answers=dict(answers),
    )
    tables["pairs"] = table(PAIRS, given)
    tables["run"] = table(DENSE_RUN, [(*hit, 0.0) for hit in hits])
    if vectors:
        rows = pa.array(range(DOCS), pa.int32())
        tables["doc_vectors"] = vector_table(DOC_VECTORS, rows, "doc_row")
        tables["query_vectors"] = vector_table(QUERY_VECTORS, QUERY_IDS, "query_id")
    return tables


def documents_of(found, query):
    return {row["doc_id"] for row in found.to_pylist() if row["query_id"] == query}


@pytest.fixture
def candidates(run_stage_on, store):
    """`candidates(tables, **params)`: the table, and the build's note."""

    def run(tables, **params):
        found = run_stage_on(CANDIDATES, CandidatesParams(**params), tables)["candidates"]
        (meta,) = [meta for meta in store.builds.all() if meta.stage == "candidates"]
        return found, meta.notes["candidates"]

    return run


def test_training_queries_keep_their_ranks_without_their_positives(candidates):
    found, note = candidates(data(), rank_from=3, rank_to=20)
    for n in range(QUERIES):
        ranked = np.random.default_rng(n).permutation(DOCS)[2:20]
        rows = [(row["doc_id"], row["rank"]) for row in found.to_pylist() if row["query_id"] == f"q{n}"]
        barred = {n, n + 1} | ({31} if n == 2 else set())
        assert rows == [(f"d{doc}", rank) for rank, doc in enumerate(ranked, 3) if doc not in barred]
    assert not documents_of(found, "dev")
    assert note["found"] == 18 * QUERIES
    assert note["kept"] == len(found) == note["found"] - sum(note["removed"].values())


def test_queries_without_a_pair_have_candidates_where_they_are_asked_for(candidates):
    given = data(vectors=False)
    few = given | {
        "pairs": given["pairs"].filter(pc.less(given["pairs"]["query_id"], "q2"))
    }  # of q0, q1, q10, q11, dev
    unlabelled, _ = candidates(few, queries="unlabelled", rank_to=DOCS)
    assert set(unlabelled["query_id"].to_pylist()) == {f"q{n}" for n in range(2, 10)}
    assert "d31" not in documents_of(unlabelled, "q2") and "d31" in documents_of(unlabelled, "q3")
    assert len(documents_of(unlabelled, "q3")) == DOCS and unlabelled["positive"].null_count == len(unlabelled)


def test_all_training_queries_may_be_asked_for(candidates):
    given = data(vectors=False)
    few = given | {"pairs": given["pairs"].filter(pc.less(given["pairs"]["query_id"], "q2"))}
    found, _ = candidates(few, queries="all", rank_to=DOCS)
    assert set(found["query_id"].to_pylist()) == {f"q{n}" for n in range(QUERIES)}
    assert not documents_of(found, "q0") & {"d0", "d1"}


def test_queries_without_a_pair_that_are_not_there_or_not_comparable_are_refused(candidates):
    with pytest.raises(ConfigError, match="all 12 training queries have a pair, and candidates are wanted for queries"):
        candidates(data(vectors=False), queries="unlabelled")
    with pytest.raises(ConfigError, match="candidates of all queries may have no positive to compare with"):
        candidates(data(), queries="all")


def test_each_rule_leaves_out_what_no_rule_before_it_did_and_is_counted(candidates):
    given = data(
        pairs=[("again", "d20")],  # again, with q2's text, is also a training query here
        held_out=[("dev", "d30")],
        answers=[("q5", ["Word7", "word5"]), ("q6", ["and"]), ("q7", ["ord9", "..."]), ("dev", ["more"])],
        texts={33: "word8 and more"},  # the words of d8, which is q7's and q8's
    )
    found, note = candidates(given, rank_to=DOCS)
    every = set(DOC_IDS.to_pylist())
    assert documents_of(found, "q2") == every - {"d2", "d3", "d20"}
    assert documents_of(found, "q5") == every - {"d5", "d6", "d7"}
    assert documents_of(found, "q6") == set()
    assert documents_of(found, "q7") == every - {"d7", "d8", "d33"}
    assert documents_of(found, "q8") == every - {"d8", "d9", "d33"}
    assert note == {
        "found": DOCS * QUERIES,
        "removed": {"positive": 2 * QUERIES, "same_text": 3, "held_out": 0, "answering": 1 + DOCS - 2},
        "kept": len(found),
    }


def test_documents_that_hold_an_answer_are_kept_where_that_is_wanted(candidates):
    given = data(answers=[("q5", ["word7"]), ("q6", ["and"])])
    found, note = candidates(given, rank_to=DOCS, answering="keep")
    every = set(DOC_IDS.to_pylist())
    assert documents_of(found, "q5") == every - {"d5", "d6"} and documents_of(found, "q6") == every - {"d6", "d7"}
    assert note["removed"] == {"positive": 2 * QUERIES, "same_text": 0, "held_out": 1}


def test_a_query_that_is_a_document_itself_is_no_candidate_of_its_own(candidates):
    """By its text, though its title is another; by its id, though its text is another; a number tells nothing."""
    tables = data(texts={7: "Question 5 "})
    new = {"d9": "x4", "q4": "x4", "d11": "8", "q8": "8"}
    for name in ("run", "corpus", "pairs", "queries", "query_vectors"):
        for column in {"query_id", "doc_id"} & {*tables[name].column_names}:
            ids = pa.array([new.get(one, one) for one in tables[name][column].to_pylist()], pa.string())
            tables[name] = tables[name].set_column(tables[name].column_names.index(column), column, ids)
    found, note = candidates(tables)
    assert note["removed"]["own"] == 2
    assert "d7" not in documents_of(found, "q5") and "x4" not in documents_of(found, "x4")
    assert "d7" in documents_of(found, "q2") and "x4" in documents_of(found, "q2") and "8" in documents_of(found, "8")


def test_an_empty_text_is_told_apart_by_its_title(candidates):
    found, _ = candidates(data(texts={4: "", 5: "", 21: "title 4"}), rank_to=DOCS)
    assert documents_of(found, "q4") == set(DOC_IDS.to_pylist()) - {"d4", "d5", "d21"}


def test_held_out_pairs_bar_documents_from_queries_of_their_text_or_from_all(run_stage_on):
    given = data()
    for held_out, barred in (("same_query", {"q2": {"d31"}}), ("any_query", None)):
        found = run_stage_on(CANDIDATES, CandidatesParams(rank_to=DOCS, held_out=held_out), given)["candidates"]
        for n in range(QUERIES):
            gone = {"d30", "d31"} if barred is None else barred.get(f"q{n}", set())
            expected = set(DOC_IDS.to_pylist()) - {f"d{n}", f"d{n + 1}"} - gone
            assert documents_of(found, f"q{n}") == expected


@pytest.mark.parametrize("positive", ["best", "worst"])
def test_similarities_are_inner_products_with_the_chosen_positive(candidates, positive):
    found, _ = candidates(data(), positive=positive)
    choose = max if positive == "best" else min
    for row in found.to_pylist():
        number, doc = int(row["query_id"][1:]), int(row["doc_id"][1:])
        query, other = QUERY_VECTORS[number], DOC_VECTORS[doc]
        own = choose((number, number + 1), key=lambda n: query @ DOC_VECTORS[n])
        assert row["positive"] == f"d{own}"
        expected = {
            "score": query @ other,
            "positive_score": query @ DOC_VECTORS[own],
            "positive_similarity": DOC_VECTORS[own] @ other,
            "query_norm": np.sqrt((query**2).sum()),
            "positive_norm": np.sqrt((DOC_VECTORS[own] ** 2).sum()),
            "norm": np.sqrt((other**2).sum()),
        }
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name


def test_without_vectors_there_are_ranks_alone(candidates):
    found, _ = candidates(data(vectors=False))
    assert found["rank"].null_count == 0
    assert found["score"].null_count == found["norm"].null_count == found["positive"].null_count == len(found) > 0


def test_vectors_must_be_there_for_all_that_is_compared(run_stage_on):
    given = data()
    some = given["doc_vectors"].filter(
        pc.invert(pc.is_in(given["doc_vectors"]["doc_row"], pa.array([3, 9], pa.int32())))
    )
    with pytest.raises(DataError, match="doc_vectors lacks 2 of the 40 that are compared"):
        run_stage_on(CANDIDATES, CandidatesParams(), given | {"doc_vectors": some})
    with pytest.raises(DataError, match=r"query_vectors lacks 9 of the 12 .* queries of split train"):
        few = given["query_vectors"].filter(pc.is_in(given["query_vectors"]["query_id"], QUERY_IDS[:3]))
        run_stage_on(CANDIDATES, CandidatesParams(), given | {"query_vectors": few})
    with pytest.raises(ConfigError, match="vectors of documents and of queries, or neither"):
        run_stage_on(CANDIDATES, CandidatesParams(), {name: t for name, t in given.items() if name != "query_vectors"})
    with pytest.raises(DataError, match="the corpus lacks 1 of the 40 documents"):
        run_stage_on(CANDIDATES, CandidatesParams(), given | {"corpus": given["corpus"].slice(1)})


def test_ranks_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match="rank_from=30 lies behind rank_to=20"):
        CandidatesParams(rank_from=30, rank_to=20)


@pytest.mark.parametrize("positive", ["best", "worst"])
def test_a_query_searches_with_the_vector_of_its_positive(run_stage_on, positive):
    given = data()
    params = PositiveVectorsParams(positive=positive)
    reads = {name: given[name] for name in ("pairs", "corpus", "doc_vectors", "query_vectors")}
    found = run_stage_on(POSITIVE_VECTORS, params, reads)["positive_vectors"].to_pylist()
    assert {row["query_id"] for row in found} == {f"q{n}" for n in range(QUERIES)}, "of training queries alone"
    for row in found:
        number = int(row["query_id"][1:])
        scores = {doc: float(QUERY_VECTORS[number] @ DOC_VECTORS[doc]) for doc in (number, number + 1)}
        chosen = (max if positive == "best" else min)(scores, key=scores.get)
        np.testing.assert_array_equal(np.array(row["vector"], np.float32), DOC_VECTORS[chosen])
