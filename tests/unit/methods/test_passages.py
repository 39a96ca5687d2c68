"""An experiment on long documents: passages are learned and searched, documents measured; off, nothing changes."""

import json

import pyarrow.compute as pc
import pytest

from noisyir.app.label_audit import run_audit
from noisyir.app.lookup import find_model, newest_index
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.registry.tracker import Tracker
from tests.tiny import SETTINGS, write_beir

PARTS = 4


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """The tiny collection, four of its documents in one."""
    folder = write_beir(tmp_path_factory.mktemp("long"))
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    whole = {row["_id"]: f"l{number // PARTS}" for number, row in enumerate(documents)}
    with (folder / "corpus.jsonl").open("w") as out:
        for number in range(0, len(documents), PARTS):
            text = " ".join(f"{row['text']}." for row in documents[number : number + PARTS])
            out.write(json.dumps({"_id": f"l{number // PARTS}", "text": text}) + "\n")
    for path in (folder / "qrels").iterdir():
        head, *lines = path.read_text().splitlines()
        rows = (line.split("\t") for line in lines)
        path.write_text("\n".join([head, *(f"{query}\t{whole[doc]}\t{grade}" for query, doc, grade in rows)]) + "\n")
    return folder


@pytest.fixture
def experiment(collection):
    fixed = (*SETTINGS, f"data.path={collection}", "methods=[dpr]", "noise.rate=0", "mine.per_query=2")
    return lambda *more: experiments.load("demo", [*fixed, "mine.rank_to=30", "train.hard_negatives=1", *more])


@pytest.fixture
def execution(store):
    return Execution(store=store, runtime=Runtime(device="cpu", threads=1), tracker=Tracker(), observer=Observer())


def test_passages_are_learned_and_documents_are_measured(experiment, execution, store):
    exp = experiment("chunk.words=13", "search.top_k=10", "bm25.top_k=10")
    outcome = run_experiment(exp, Choice(), execution)

    def read(ref):
        return store.builds.table(ref)

    made = {name: result.meta for name, result in outcome.results.items()}
    cut, mined = made["chunk"], next(meta for name, meta in made.items() if meta.stage == "mine")
    assert cut.notes["passages"] == {"documents": 20, "passages": 80}
    pairs = read(cut.ref("pairs"))
    corpus = dict(zip(*(read(cut.ref("corpus"))[name].to_pylist() for name in ("doc_id", "text")), strict=True))
    queries = read(made["ingest"].ref("queries"))
    asked = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    for row in pairs.to_pylist():  # the passage that has the word that only one has
        assert asked[row["query_id"]].split()[-1] in corpus[row["doc_id"]].split()
    own = {(row["query_id"], row["doc_id"].split("#")[0]) for row in pairs.to_pylist()}
    negatives = read(mined.ref("negatives")).to_pylist()
    assert negatives and not {(row["query_id"], row["doc_id"].split("#")[0]) for row in negatives} & own
    for name, meta in made.items():
        if meta.stage == "score":
            assert dict(meta.input_refs())["qrels"] == made["ingest"].ref("qrels"), name
            run = read(dict(meta.input_refs())["run"])
            assert run.num_rows == 24 * 10 and not pc.any(pc.match_substring(run["doc_id"], "#")).as_py(), name
    comparison = read(outcome.kept["comparison"]).to_pylist()
    best = max(row["mean"] for row in comparison if row["measure"] == "R@100" or row["measure"].startswith("R@"))
    assert best > 0.5
    model = find_model(store, "demo")
    searched = newest_index(store, model).corpus
    assert searched == cut.ref("corpus")


def test_an_audit_of_passages_is_applied_to_the_documents(tmp_path, execution):
    rows = [
        {"question": f"what of thing{n}?", "answer": f"Something else is here. Now thing{n} is word{n}."}
        for n in range(40)
    ]
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["detectors={b: bm25_margin}", "chunk.words=5", "audit={}"]
    exp = experiments.from_settings({"name": "long", "data": {"kind": "pairs", "path": str(path)}}, words)
    found = run_audit(exp, execution)
    assert all("#" in doc_id for doc_id in found.table["doc_id"].to_pylist())
    assert all(text.startswith("Now thing") for text in found.table["document"].to_pylist())
    applied = found.apply(tmp_path / "out")
    cleaned = [json.loads(line) for line in applied.pairs.read_text().splitlines()]
    assert [{**row, "weight": None} for row in cleaned] == [{**row, "weight": None} for row in rows]


def test_whole_documents_have_the_keys_that_they_had(experiment):
    plain, depth = train_retriever(experiment()), train_retriever(experiment("chunk.overlap=0", "chunk.depth=3"))
    assert [(step.name, step.key) for step in plain.steps[:-1]] == [(step.name, step.key) for step in depth.steps[:-1]]
    assert not {"chunk", "best_passages"} & {step.stage.name for step in plain.steps}
