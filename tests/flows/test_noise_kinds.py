"""Noise that changes the collection, through a whole run: all that comes after reads the changed one."""

import json

import pyarrow.compute as pc
import pytest

from noisyir.app.label_audit import run_audit
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.registry import open_tracker
from tests.tiny import SETTINGS, tiny_data

QUICK = ("methods=[dpr,oracle,reweight]", "detectors={bm25: bm25_margin, sim: similarity}")
MINED = ("mine.per_query=2", "train.hard_negatives=1")


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("beir"))


@pytest.mark.parametrize("kind", ["half_answer", "absent", "confusable"])
def test_a_run_and_an_audit_read_the_collection_as_the_noise_leaves_it(collection, tmp_path, kind):
    given = (*collection, f"noise={{kind: {kind}, rate: 0.3}}", *QUICK, *MINED)
    exp = experiments.load("demo", [*SETTINGS, *given])
    store = Store(tmp_path / "store", home=tmp_path)
    tracker = open_tracker(experiment=exp, home=tmp_path, enabled=False)
    execution = Execution(store=store, runtime=Runtime(threads=1), tracker=tracker)
    outcome = run_experiment(exp, Choice(), execution, pipeline=train_retriever)

    def table(step, name):
        return store.builds.table(outcome.results[step].meta.ref(name))

    truth = table("corrupt", "noise_truth")
    wrong = truth.filter(truth["is_noisy"])
    assert len(wrong) == 18 and set(wrong["kind"].to_pylist()) <= {kind, f"{kind}_kept"}
    corpus = table("corrupt" if kind != "confusable" else "ingest", "corpus")["doc_id"]
    grown = {"half_answer": 18, "absent": -pc.sum(pc.equal(wrong["kind"], "absent")).as_py(), "confusable": 0}[kind]
    assert len(corpus) == 80 + grown and (grown != 0) == (kind != "confusable")
    vectors = outcome.results["encode@dpr"].meta.artifacts["doc_vectors"]
    assert vectors.rows == len(corpus)
    detection = outcome.kept["detection"]
    assert store.builds.table(detection).num_rows > 0

    audited = run_audit(exp.model_copy(update={"audit": exp.audit or experiments.load("demo").audit}), execution)
    assert set(audited.table["doc_id"].to_pylist()) <= set(corpus.to_pylist())
    audited.apply(tmp_path / "clean")
    files = [path for path in (tmp_path / "clean").rglob("*.jsonl")]
    assert files and all(json.loads(line) for path in files for line in path.read_text().splitlines())
