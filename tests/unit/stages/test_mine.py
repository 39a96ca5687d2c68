"""Mining draws only what is not known to be relevant, at the ranks asked for, for training queries."""

import pyarrow as pa
import pytest

from noisyir.config import MineParams
from noisyir.schemas import PAIRS
from noisyir.stages.mine import MINE

DEPTH = 30


def data(queries=20):
    """Query n ranks documents d0..d29 alike; d(n) and d(n + 1) are its pairs."""
    ids = [f"q{n}" for n in range(queries)]
    hits = [(q, f"d{rank - 1}", rank, 1.0 / rank) for q in ids for rank in range(1, DEPTH + 1)]
    dev = [("dev", f"d{rank - 1}", rank, 1.0) for rank in range(1, DEPTH + 1)]
    pairs = [(f"q{n}", f"d{n + more}", "train", None) for n in range(queries) for more in (0, 1)]
    return {
        "run": pa.table(list(zip(*hits, *dev, strict=True)), names=["query_id", "doc_id", "rank", "score"]),
        "pairs": pa.table(list(zip(*pairs, ("dev", "d5", "dev", None), strict=True)), schema=PAIRS.schema),
    }


def by_query(negatives):
    found = {}
    for row in negatives.to_pylist():
        found.setdefault(row["query_id"], []).append(row)
    return found


def test_negatives_are_distinct_within_the_ranks_and_not_known_to_be_relevant(run_stage_on):
    out = run_stage_on(MINE, MineParams(per_query=5, rank_from=3, rank_to=25), data())
    found = by_query(out["negatives"])
    assert set(found) == {f"q{n}" for n in range(20)}
    for n in range(20):
        rows = found[f"q{n}"]
        docs = {int(row["doc_id"][1:]) for row in rows}
        assert len(docs) == 5 and docs <= set(range(2, 25)) - {n, n + 1}
        assert [row["draw"] for row in rows] == [0, 1, 2, 3, 4]
        assert {row["weight"] for row in rows} == {1.0}


def test_a_query_with_too_few_candidates_gives_all_of_them_and_the_build_says_so(run_stage_on, store):
    out = run_stage_on(MINE, MineParams(per_query=10, rank_from=1, rank_to=8), data())
    sizes = {query: len(rows) for query, rows in by_query(out["negatives"]).items()}
    assert sizes == {f"q{n}": 6 if n < 7 else 7 if n == 7 else 8 for n in range(20)}
    (meta,) = [meta for meta in store.all_builds() if meta.stage == "mine"]
    removed = 2 * 7 + 1
    assert meta.notes["negatives"] == {
        "candidates": 160,
        "removed_as_relevant": removed,
        "removed_as_answering": 0,
        "drawn": 160 - removed,
        "queries": 20,
        "queries_with_too_few": 20,
    }


def test_the_seed_decides_the_draw(run_stage_on):
    params = MineParams(per_query=5)
    one, again, other = (run_stage_on(MINE, params, data(), seed=seed)["negatives"] for seed in (1, 1, 2))
    assert one.equals(again) and not one.equals(other)


@pytest.mark.parametrize("answers", [[("q0", ["Word7"]), ("q1", ["7"])], []])
def test_documents_that_hold_an_answer_are_left_out_where_the_data_has_answers(run_stage_on, answers):
    given = data(2)
    kind = pa.schema([("query_id", pa.string()), ("aliases", pa.list_(pa.string()))])
    rows = [{"query_id": query, "aliases": aliases} for query, aliases in answers]
    corpus = [(f"d{n}", n, "word7", f"some word{n} here") for n in range(DEPTH)]
    given["answers"] = pa.Table.from_pylist(rows, schema=kind)
    given["corpus"] = pa.table(list(zip(*corpus, strict=True)), names=["doc_id", "doc_row", "title", "text"])
    drawn = by_query(run_stage_on(MINE, MineParams(per_query=DEPTH), given)["negatives"])
    assert ("d7" in {row["doc_id"] for row in drawn["q0"]}) is (not answers)
    assert len(drawn["q0"]) == DEPTH - 2 - bool(answers)
    assert "d7" in {row["doc_id"] for row in drawn["q1"]}, "a part of a token is not an answer"
