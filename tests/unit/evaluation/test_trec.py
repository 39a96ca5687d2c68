"""TREC files: what is read is what was written, and trec_eval's order is ours."""

from pathlib import Path
from urllib.parse import unquote

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noisyir.retrieval.measures import judged, per_query, ranked
from noisyir.retrieval.trec import strictly_falling, write_qrels, write_run

any_scores = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-(2.0**99), 2.0**99, width=32))


def lines_of(path: Path) -> list[list[str]]:
    """The fields of every line."""
    return [list(map(unquote, line.split())) for line in path.read_text(encoding="utf-8").splitlines()]


def tied_run() -> pa.Table:
    rows = [(q, d, rank, 0.5) for q, docs in {"q 1": "zay", "q2": "abz"}.items() for rank, d in enumerate(docs, 1)]
    return pa.Table.from_pylist([dict(zip(("query_id", "doc_id", "rank", "score"), row, strict=True)) for row in rows])


@given(any_scores)
def test_written_scores_fall_strictly_and_never_rise(scores: np.ndarray):
    falling = strictly_falling(scores, np.array([len(scores)]))
    assert (np.diff(falling) < 0).all()
    assert (falling <= scores).all()


@given(any_scores)
def test_scores_that_fall_already_are_written_as_they_are(scores: np.ndarray):
    scores = np.unique(scores + np.float32(0))[::-1]
    np.testing.assert_array_equal(strictly_falling(scores, np.array([len(scores)])), scores)


def test_a_tie_is_broken_by_one_float32_step_and_not_across_queries():
    tied = np.array([1, 1, 1, 5], np.float32)
    step = np.nextafter(np.float32(1), np.float32(0))
    expected = [1, step, np.nextafter(step, np.float32(0)), 5]
    np.testing.assert_array_equal(strictly_falling(tied, np.array([3, 1])), np.array(expected, np.float32))


def test_a_run_is_read_back_in_rank_order_with_ids_that_hold_spaces(tmp_path: Path):
    run = ranked(tied_run(), ["q 1", "q2"])
    write_run(run, tmp_path / "test.run")
    assert (tmp_path / "test.run").read_text().splitlines()[0] == "q%201 Q0 z 1 0.5 noisyir"
    back = [(query_id, doc_id, int(rank)) for query_id, _, doc_id, rank, *_ in lines_of(tmp_path / "test.run")]
    assert back == [(row["query_id"], row["doc_id"], row["rank"]) for row in run.to_pylist()]


def test_qrels_are_read_back(tmp_path: Path):
    write_qrels({"q 1": {"b%": 0, "a": 2}, "a": {"x": 1}}, tmp_path / "test.qrels")
    expected = [["a", "0", "x", "1"], ["q 1", "0", "a", "2"], ["q 1", "0", "b%", "0"]]
    assert lines_of(tmp_path / "test.qrels") == expected


def test_other_tools_reading_the_files_get_our_values(tmp_path: Path):
    run = ranked(tied_run(), ["q 1", "q2"])
    qrels = pa.table({"query_id": ["q 1", "q2"], "doc_id": ["y", "z"], "relevance": [1, 1]})
    judgements = judged(qrels, ["q 1", "q2"])
    write_run(run, tmp_path / "test.run")
    write_qrels(judgements, tmp_path / "test.qrels")
    names = ["nDCG@10", "RR", "AP"]
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in names],
        ir_measures.read_trec_qrels(str(tmp_path / "test.qrels")),
        ir_measures.read_trec_run(str(tmp_path / "test.run")),
    )
    ours = per_query(run, judgements, names).group_by("measure").aggregate([("value", "mean")])
    for name, mean in zip(ours["measure"].to_pylist(), ours["value_mean"].to_pylist(), strict=True):
        assert theirs[ir_measures.parse_measure(name)] == pytest.approx(mean)
