"""trec_eval's own quick test: every value that it expects of a measure that we have, to four digits.

A run of others is ranked as trec_eval does: by score in float32, equal ones by document id from the last to the first.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.data.artifacts import CORPUS, QRELS, QUERIES
from noisyir.data.formats.trec import TrecFiles, trec_role
from noisyir.data.settings import GivenFileParams
from noisyir.retrieval.measures import judged, per_query, ranked
from noisyir.retrieval.stages.search import RUN_OF_OTHERS
from tests.conformance import SHARED, needs
from tests.world import table

HERE = SHARED / "conformance" / "trec_eval"
MEASURES = {
    "map": "AP", "map_cut_": "AP@{}", "Rprec": "Rprec", "bpref": "Bpref", "recip_rank": "RR", "infAP": "infAP",
    "P_": "P@{}", "recall_": "R@{}", "success_": "Success@{}", "ndcg": "nDCG", "ndcg_cut_": "nDCG@{}",
    "iprec_at_recall_": "IPrec@{}", "set_P": "SetP", "set_relative_P": "SetRelP", "set_recall": "SetR",
    "set_F": "SetF", "set_map": "SetAP", "num_ret": "NumRet", "unj_": "Judged@{}",
}  # fmt: skip
ROUNDED = 0.5e-4 + 1e-9
UNGRADED = {"nDCG", "Judged", "NumRet"}  # read grades, or none
TESTS = {  # the expected values, judgements, run, relevance level, depth; and at least how many values
    "out.test": ("qrels.test", "results.test", 1, 1000, 19),
    "out.test.a": ("qrels.test", "results.test", 1, 1000, 59),
    "out.test.aq": ("qrels.test", "results.test", 1, 1000, 247),
    "out.test.aqc": ("qrels.test.with-comments", "results.trunc", 1, 1000, 241),  # a missing query, and long tags
    "out.test.aqcM": ("qrels.test", "results.trunc", 1, 100, 241),
    "out.test.aql": ("qrels.rel_level", "results.test", 2, 1000, 235),
    "out.test.meas_params": ("qrels.test", "results.test", 1, 1000, 58),
}


def expected(name: str, level: int) -> Iterator[tuple[str, str, float]]:
    """Our measure, the query or `all`, and the value."""
    for line in (HERE / name).read_text().splitlines():
        theirs, query, value = line.split("\t")
        if ours := measure_of(theirs.strip(), level):
            yield ours, query, 1 - float(value) if ours.startswith("Judged") else float(value)


def measure_of(name: str, level: int) -> str | None:
    stem, cut = re.fullmatch(r"(.*?)([\d.]*)", name).groups()
    ours = MEASURES.get(stem)
    if ours is None or (cut != "") != ("{}" in ours):
        return None
    if level > 1 and re.split(r"\W", ours)[0] not in UNGRADED:
        ours = re.sub(r"^\w+", rf"\g<0>(rel={level})", ours).replace(")(", ",")
    return ours.format(cut)


def judgements_of(path: Path, queries: list[str] | None = None) -> dict[str, dict[str, int]]:
    assert trec_role(path) == "qrels"
    files = TrecFiles(path.name, path, path, None, None, "test")  # type: ignore[arg-type]
    rows = table(QRELS, [(row.query_id, row.doc_id, row.relevance) for row in files.judgements()])
    return judged(rows, queries or rows["query_id"].unique().to_pylist())


def counted_otherwise(measure: str, found: dict[str, int], hits: int, level: int) -> bool:
    """Where trec_eval 10 differs by its own rules from what we have of trec_eval 9 and of ir-measures.

    IPrec: 10 rounds a recall's number of documents, 9 adds 0.9 and cuts.  Judged: -1 counts as a judgement, and a query
    without hits counts 0; trec_eval knows the unjudged ones, of which there are none.
    """
    if measure.startswith("IPrec"):
        recall = float(measure.partition("@")[2]) * sum(grade >= level for grade in found.values())
        return int(recall + 0.9) != int(recall + 0.5)
    return measure.startswith("Judged") and (not hits or -1 in found.values())


@needs(HERE)
@pytest.mark.parametrize("name", TESTS)
def test_values_are_trec_evals(run_stage_on, name):
    qrels, run, level, depth, at_least = TESTS[name]
    judgements = judgements_of(HERE / qrels)
    rows = ranked(read(run_stage_on, HERE / run, judgements), list(judgements))
    rows = rows.filter(pc.less_equal(rows["rank"], depth))
    hits = Counter(rows["query_id"].to_pylist())
    wanted = [
        (measure, query, value)
        for measure, query, value in expected(name, level)
        if not any(
            counted_otherwise(measure, found, hits[one], level)
            for one, found in judgements.items()
            if query in (one, "all")
        )
    ]
    values = per_query(rows, judgements, list(dict.fromkeys(measure for measure, *_ in wanted)))
    ours = {(row["measure"], row["query_id"]): row["value"] for row in values.to_pylist()}
    for row in values.group_by("measure").aggregate([("value", "mean"), ("value", "sum")]).to_pylist():
        ours[row["measure"], "all"] = row["value_sum" if row["measure"] == "NumRet" else "value_mean"]
    off = [
        (measure, query, value, ours[measure, query])
        for measure, query, value in wanted
        if abs(ours[measure, query] - value) > ROUNDED
    ]
    assert not off and len(wanted) >= at_least


def read(run_stage_on, path: Path, judgements: dict[str, dict[str, int]]) -> pa.Table:
    lines = [line.split() for line in path.read_text().splitlines()]
    given = {
        "queries": table(
            QUERIES, [(query, "x", "test") for query in sorted({*judgements, *(line[0] for line in lines)})]
        ),
        "corpus": table(CORPUS, [(doc, n, "", "x") for n, doc in enumerate(sorted({line[2] for line in lines}))]),
    }
    return run_stage_on(RUN_OF_OTHERS, GivenFileParams(path=str(path)), given)["dense_run"]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([2.0, 1.0, 1.00000001, 1e-9, 0.0, -1.0]), min_size=2, max_size=6))
def test_ties_are_broken_as_trec_eval_breaks_them(run_stage_once, tmp_path_factory, scores):
    """Two scores that are one in float32 are equal, and the rank column decides nothing."""
    names = ["Z", "a", "b", "b1", "z", "é"][: len(scores)]
    path = tmp_path_factory.mktemp("run") / "run.trec"
    lines = [f"q Q0 {doc} {n} {score!r} tag" for n, (doc, score) in enumerate(zip(names, scores, strict=True), 1)]
    path.write_text("\n".join(lines), encoding="utf-8")
    for relevant in names:
        judgements = {"q": {relevant: 1}}
        evaluator = pytrec_eval.RelevanceEvaluator(judgements, {"recip_rank"})
        theirs = evaluator.evaluate({"q": dict(zip(names, scores, strict=True))})["q"]["recip_rank"]
        rows = ranked(read(run_stage_once, path, judgements), ["q"])
        assert per_query(rows, judgements, ["RR"])["value"].to_pylist() == [theirs]
