"""Registered rankers and readers: loaded without noisyir, they say what ours say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from noisyir.engine.meta import Ref, contents_of
from noisyir.models.ranker import initial_ranker, load_ranker
from noisyir.models.settings import InitRankerParams
from noisyir.readers.model import initial_reader
from noisyir.readers.registered import READER
from noisyir.readers.settings import InitReaderParams, ReadParams
from noisyir.readers.stages.read import READ
from noisyir.registry.backend import Backend, exclusive
from noisyir.registry.card import Card
from noisyir.registry.kinds import RANKER, Kind
from noisyir.registry.registry import Origin, register
from tests.tiny_models import tiny_bert, tiny_classifier

PAIRS = [("w1 w2", "w3 w4 w5"), ("w9", "w1 " * 60), ("w7 w8 w9", ""), ("w1 w2", "w2 w1")]
ASKED = [
    ("w1 w2?", "w3, w4 w5  (w6)."),
    ("w9 " * 20, " ".join(f"w{number % 60}" for number in range(150))),  # question cut, passage in many windows
    ("w7", "W8  w9 "),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    root = tmp_path_factory.mktemp("models")
    ranker, _ = initial_ranker(
        tiny_classifier(root / "classifier", seed=3), InitRankerParams(weights="x", max_len=24), 0
    )
    reader, _ = initial_reader(
        tiny_bert(root / "bert"), InitReaderParams(weights="x", max_len=32, question_max_len=8), 0
    )
    made = {RANKER: root / "ranker", READER: root / "reader"}
    for model, folder in zip((ranker, reader), made.values(), strict=True):
        folder.mkdir()
        model.save(folder)
    return made


@pytest.fixture
def versions(backend: Backend, home: Path, folders: dict[Kind, Path]) -> Backend:
    """Both models registered, each twice."""
    experiment = backend.experiment_id("noisyir-tiny")
    for kind, folder in [*folders.items(), *folders.items()]:
        digest = contents_of(folder, 1, None).digest
        model = Ref(kind.kept, "made", "a" * 32, "build", digest)
        tags = {"artifact_key": model.key, "artifact_digest": digest, "experiment": "tiny", "eval_digest": "e" * 32}
        card = Card({"F1_x": 0.5}, tags, "A card.")
        run = backend.client.create_run(experiment).info.run_id
        with exclusive(home):
            number = register(backend, kind, model, folder, card, Origin(run, experiment, {"flow_run": "f1"}))
        assert number == "1"
    return backend


def test_both_are_registered_once_each_with_what_they_need_and_nothing_pickled(versions: Backend, home: Path):
    for kind in (RANKER, READER):
        (version,) = versions.client.search_model_versions(f"name = '{kind.name}'")
        assert f"models:/{kind.name}/1" in version.description and "Prefect flow run: f1" in version.description
        assert "docs/operate/registry.md" in versions.client.get_registered_model(kind.name).description
    files = [path for path in (home / "mlflow-artifacts" / "models").rglob("*") if path.is_file()]
    assert {"pyfunc_ranker.py", "pyfunc_reader.py", "ranker.json", "reader.json"} <= {path.name for path in files}
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".pt", ".bin")]
    asked = "\n".join(path.read_text() for path in files if path.name == "requirements.txt")
    assert "transformers==" in asked and "noisyir" not in asked


@pytest.mark.slow  # its twin in test_registry.py is quick
def test_a_fresh_process_without_noisyir_ranks_and_reads_as_we_do(versions, home, folders, run_stage_on):
    code = (
        "import sys, json; sys.modules['noisyir'] = None; import mlflow; pairs, asked = map(json.loads, sys.argv[1:]);"
        "load = lambda kind: mlflow.pyfunc.load_model(f'models:/noisyir-{kind}@challenger');"
        "ranker, reader = load('ranker'), load('reader');"
        "print(json.dumps([ranker.predict(pairs), reader.predict(asked, params={'stride': 6, 'max_answer_len': 5}),"
        " reader.predict([{'question': 'w1', 'passage': ''}])]))"
    )
    pairs = [{"query": query, "passage": passage} for query, passage in PAIRS]
    asked = [{"question": question, "passage": passage} for question, passage in ASKED]
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(pairs), json.dumps(asked)],
        env={
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "HF_HUB_OFFLINE": "1",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        cwd=home, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    scores, answers, nothing = json.loads(done.stdout)
    with np.errstate(all="raise"):
        ours = load_ranker(folders[RANKER], "cpu")(*(list(side) for side in zip(*PAIRS, strict=True)))
    np.testing.assert_allclose(scores, ours.detach().numpy(), atol=1e-5)
    assert np.ptp(scores) > 1e-3, "the tiny ranker tells nothing apart"
    assert nothing == [{"answer": "", "start": 0, "end": 0, "score": None}]
    read = run_stage_on(
        READ,
        ReadParams(n_best=1, max_answer_len=5, stride=6),
        {
            "reader": folders[READER],
            "passages": pa.table({
                "query_id": ["0", "1", "2"], "doc_id": ["0", "1", "2"], "rank": pa.array([1, 1, 1], pa.int32()),
                "score": pa.array([1.0] * 3, pa.float32()), "has_answer": [True] * 3,
            }),
            "queries": pa.table({
                "query_id": ["0", "1", "2"], "text": [question for question, _ in ASKED], "split": ["test"] * 3
            }),
            "corpus": pa.table({
                "doc_id": ["0", "1", "2"], "doc_row": pa.array([0, 1, 2], pa.int32()), "title": [""] * 3,
                "text": [passage for _, passage in ASKED],
            }),
        },
    )["readings"].to_pylist()  # fmt: skip
    assert [(row["answer"], row["start"], row["end"]) for row in read] == [
        (found["answer"], found["start"], found["end"]) for found in answers
    ]
    np.testing.assert_allclose([found["score"] for found in answers], [row["score"] for row in read], atol=1e-5)


def test_input_of_another_shape_is_refused(versions: Backend):
    from mlflow import pyfunc
    from mlflow.exceptions import MlflowException

    with versions.current():
        ranker = pyfunc.load_model(f"models:/{RANKER.name}/1")
    with pytest.raises(MlflowException, match="passage"):
        ranker.predict([{"query": "w1"}])
