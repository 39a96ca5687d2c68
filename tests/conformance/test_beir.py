"""BEIR's own loader and evaluator read our export and our runs, and get what we have."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from noisyir.data.artifacts import QRELS
from noisyir.front.cli import main
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.measures import judged, per_query, ranked
from tests.conformance import SHARED, needs
from tests.world import table

pytest.importorskip("beir")

CRAN = SHARED / "beir" / "cran"
CORPUS = {  # id: title and text
    "d/1": ('A "title"', "Lift holds\ta wing up.\r\nSo it flies."),
    "#2": ("", "Drag is the force, “against” it."),
    "3' 4": ("N/A", "Nothing of the kind.\N{LINE SEPARATOR}At all."),
    "D\N{NO-BREAK SPACE}5": ("null", "Die Kraft nach oben, 100 % davon."),
}
QUERIES = {"q 1": "What is lift?", "q\N{NO-BREAK SPACE}2": "what is\tdrag", 'q"3': "Was ist Auftrieb?"}
JUDGED = {
    "train": {"q 1": {"d/1": 1}},
    "test": {"q\N{NO-BREAK SPACE}2": {"#2": 2, "3' 4": 0}, 'q"3': {"D\N{NO-BREAK SPACE}5": 1, "d/1": 3}},
}


def loaded(folder: Path, split: str):
    from beir.datasets.data_loader import GenericDataLoader

    return GenericDataLoader(str(folder)).load(split)


def exported(source: Path, target: Path) -> Path:
    assert main(["export", str(source), "--as", "beir", "--to", str(target)]) == 0
    return target


def test_what_we_export_is_what_its_loader_loads(tmp_path, capsys):
    """With ids that hold spaces and quotes, texts with tabs and line ends, and grades; each split by itself."""
    source = tmp_path / "source"
    (source / "qrels").mkdir(parents=True)
    documents = [{"_id": doc, "title": title, "text": said} for doc, (title, said) in CORPUS.items()]
    for name, rows in ("corpus", documents), ("queries", [{"_id": q, "text": said} for q, said in QUERIES.items()]):
        (source / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for split, found in JUDGED.items():
        rows = [f"{query}\t{doc}\t{grade}\n" for query, docs in found.items() for doc, grade in docs.items()]
        text = "".join(["query-id\tcorpus-id\tscore\n", *rows])
        (source / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
    target = exported(source, tmp_path / "out")
    for split, found in JUDGED.items():
        corpus, queries, qrels = loaded(target, split)
        assert corpus == {doc: {"title": title, "text": said} for doc, (title, said) in CORPUS.items()}
        assert queries == {query: QUERIES[query] for query in found} and qrels == found


@needs(CRAN)
def test_a_public_collection_goes_through(tmp_path, capsys):
    """All but documents without text, and their judgements, which no import keeps."""
    corpus, queries, qrels = loaded(CRAN, "test")
    full = {doc: row for doc, row in corpus.items() if row["text"].strip() or row["title"].strip()}
    kept = {query: {doc: grade for doc, grade in docs.items() if doc in full} for query, docs in qrels.items()}
    assert len(full) == len(corpus) - 2
    assert loaded(exported(CRAN, tmp_path / "out"), "test") == (full, queries, kept)


@pytest.mark.parametrize("ignore", [True, False])
def test_its_evaluator_has_our_values(ignore):
    """Its mean is over the queries that a run has; ours counts the others 0, and none without a relevant document."""
    from beir.retrieval.evaluation import EvaluateRetrieval

    docs = [f"d{n}" for n in range(40)]
    hits = [(f"q{q}", doc, n, 50.0 - n) for q in range(9) for n, doc in enumerate(docs[q:] + docs[:q], 1)]
    hits += [("d3", doc, n, 9.0 - n) for n, doc in enumerate(["d1", "d3", "d9"], 1)]
    rows = [(f"q{q}", f"d{(q * 7 + step) % 40}", step % 3) for q in range(10) for step in range(6)]  # q9 has no hits
    rows += [("d3", "d9", 1), ("d3", "d1", 0)]
    judgements = judged(table(QRELS, rows), [*(f"q{q}" for q in range(10)), "d3"])
    run = ranked(table(DENSE_RUN, hits), list(judgements), ignore_same_id=ignore)
    results: dict[str, dict[str, float]] = {}
    for query, doc, _, score in hits:
        results.setdefault(query, {})[doc] = score
    theirs: dict[str, float] = {}
    for found in EvaluateRetrieval.evaluate(judgements, results, [1, 3, 10, 100], ignore_identical_ids=ignore):
        theirs |= found
    theirs |= EvaluateRetrieval.evaluate_custom(judgements, results, [10], "mrr")
    names = {"NDCG": "nDCG", "MAP": "AP", "Recall": "R", "P": "P", "MRR": "RR"}
    ours = {name: f"{names[name.partition('@')[0]]}@{name.partition('@')[2]}" for name in theirs}
    means = per_query(run, judgements, list(ours.values())).group_by("measure").aggregate([("value", "mean")])
    found = dict(zip(means["measure"].to_pylist(), means["value_mean"].to_pylist(), strict=True))
    searched = len(results) / len(judgements)
    for name, value in theirs.items():
        over_all = 1.0 if name.startswith("MRR") else searched  # its MRR is over the judged ones
        assert found[ours[name]] == pytest.approx(value * over_all, abs=1e-5), name
    assert isinstance(run, pa.Table) and 0 < theirs["NDCG@10"] < 1
