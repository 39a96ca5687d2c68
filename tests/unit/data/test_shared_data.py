"""Real files, where they are: imports report the numbers of rows that their publishers and their README state."""

from pathlib import Path

import pytest

from noisyir.app.data_import import import_data

DATA = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real files are not at {DATA}")
_OF_NL2BASH = {"columns": "query=description,positive=prediction,label=correct command"}


def trec(year: str) -> dict[str, object]:
    return {"beside": {name: str(DATA / f"trec_dl/{year}_{file}.tsv") for name, file in
                       (("queries", "queries"), ("corpus", "passages"), ("run", "runs"))}}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "given", "read", "tables"),
    [
        ("staqc_sql/sql_annotated.jsonl", {}, [3637], {"judgements": 3637}),
        ("nl2bash/all.nl", {}, [12607], {"judgements": 12607, "queries": 11348, "documents": 10624}),
        ("nl2bash/manual.evaluations.dev.samples.csv", _OF_NL2BASH, [2100], {}),
        ("nl2bash/manual.evaluations.test.stc.csv", _OF_NL2BASH, [1641], {}),
        ("nl2bash/manual.evaluations.test.tellina.csv", _OF_NL2BASH, [1641], {}),
        ("conala/conala-train.json", {}, [2378], {}),
        ("conala/conala-test.json", {}, [500], {}),
        ("qed_nq_train/nq_pairs_train.jsonl", {}, [7167], {"judgements": 7167}),
        ("beir/nfcorpus", {}, [3633, 3237, 110575, 11385, 12334], {"judgements": 134294}),
        ("beir/cran", {}, [1400, 225, 1837], {"documents": 1398}),
        ("beir/cisi", {}, [1460, 112, 3114], {}),
        ("beir/med", {}, [1033, 30, 696], {}),
        ("beir/vaswani", {}, [11429, 93, 2083], {}),
        ("trec_dl/qrels.dl19-passage.txt", trec("dl19"), [14581, 43, 9260, 30100], {"judgements": 4337}),
        ("trec_dl/qrels.dl21-passage.txt", trec("dl21"), [10553, 53, 10828, 15900], {"judgements": 4812}),
        ("open_qa/nq_open/NQ-open.dev.jsonl", {"kind": "topics"}, [3610], {"queries": 3610}),
        ("open_qa/nq_open/NQ-open.efficientqa.dev.1.1.jsonl", {"kind": "topics"}, [1800], {"queries": 1800}),
        ("open_qa/nq_open/NQ-open.efficientqa.test.1.1.jsonl", {"kind": "topics"}, [1769], {"queries": 1769}),
        ("open_qa/dpr_topics/topics.dpr.nq.dev.txt", {"kind": "topics"}, [8757], {"queries": 8757}),
        ("open_qa/dpr_topics/topics.dpr.nq.test.txt", {"kind": "topics"}, [3610], {"queries": 3610}),
        ("open_qa/dpr_topics/topics.dpr.squad.test.txt", {"kind": "topics"}, [10570], {}),
        ("open_qa/dpr_topics/topics.dpr.wq.test.txt", {"kind": "topics"}, [2032], {"queries": 2032}),
        ("open_qa/dpr_topics/topics.dpr.curated.test.txt", {"kind": "topics"}, [694], {"queries": 693}),
        ("open_qa/webquestions/trainmodel.json", {"kind": "topics"}, [2834], {"queries": 2834}),
        ("open_qa/webquestions/val.json", {"kind": "topics"}, [755], {}),
        ("open_qa/webquestions/devtest.json", {"kind": "topics"}, [189], {}),
        ("open_qa/webquestions/test.json", {"kind": "topics"}, [2032], {}),
        pytest.param("squad", {}, [2067, 18896, 10570, 87599], {"documents": 20963, "judgements": 98209},
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_counts_are_those_that_are_known(source, given, read, tables, tmp_path: Path):
    report = import_data(str(DATA / source), tmp_path / "out", **given).report
    files = report["files"].values()
    assert [of["read"] for of in files] == read
    for of in files:
        out = sum(tally["count"] for tally in of["left_out"].values())
        assert of["read"] == of["kept"] + of["repeated"]["count"] + out
    assert {name: report["tables"][name] for name in tables} == tables
