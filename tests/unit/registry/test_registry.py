"""The registered retriever: found by digest, described for a person, usable without noisyir."""

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient

from noisyir.app.runs import Outcome
from noisyir.base.errors import StoreError
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.registry import registered_copies
from noisyir.registry.backend import connect
from noisyir.registry.evaluation import PER_QUERY, recipe
from noisyir.registry.kinds import RETRIEVER
from noisyir.registry.registry import find_version
from noisyir.registry.standing import standing
from tests.unit.registry.conftest import run_tiny

MODEL_NAME = RETRIEVER.name
CHALLENGER = f"models:/{MODEL_NAME}@challenger"
TEXTS = ["flour oven word3", "anchor", "the star, the comet"]


@pytest.fixture
def registered(tracked: tuple[Path, Outcome], tmp_path: Path) -> tuple[Path, Outcome]:
    """A copy of the tracked home, to change."""
    home, outcome = tracked
    return shutil.copytree(home, tmp_path / "copy"), outcome


def challenger(home: Path):
    return connect(home).client.get_model_version_by_alias(MODEL_NAME, "challenger")


def test_the_version_says_where_it_comes_from(tracked):
    home, outcome = tracked
    version, model = challenger(home), outcome.kept["model"]
    assert outcome.facts["registered"] == f"{MODEL_NAME} v{version.version}"
    assert version.run_id == outcome.facts["mlflow_run"]
    tags = version.tags
    assert (tags["artifact_key"], tags["artifact_digest"]) == (model.key, model.digest)
    assert tags["experiment"] == "demo" and len(tags["eval_digest"]) == 64
    measures = connect(home).client.get_run(version.run_id).data.metrics
    for name in ("nDCG_10", "RR_10", "R_100"):
        assert float(tags[name]) == pytest.approx(measures[f"npc.{name}"], abs=1e-6)
    for words in (
        "- 40 % of the training pairs were given a wrong document (uniform).",
        "- Noisy pair correction: at its last detection, after epoch 1, it held",
        "trained by npc; seed 42",
        "| bm25 | test | ",
        "[0.",
        f"models:/{MODEL_NAME}/1",
    ):
        assert words in version.description
    assert re.search(r"### Data\n\n\S+, digest [0-9a-f]{12}: 80 corpus", version.description)
    by_alias, by_number = (find_version(connect(home), uri) for uri in (CHALLENGER, f"models:/{MODEL_NAME}/1"))
    assert by_alias.version == by_number.version and by_alias.tags == by_number.tags
    assert by_alias.tags["artifact_key"] == model.key


def test_every_systems_values_lie_query_by_query_in_the_run(tracked, tmp_path: Path):
    home, _ = tracked
    version = challenger(home)
    table = pq.read_table(connect(home).client.download_artifacts(version.tags["evaluation_run"], PER_QUERY, tmp_path))
    assert table.column_names == ["system", "measure", "split", "query_id", "group", "value"]
    assert set(table["system"].to_pylist()) == {
        "bm25",
        *(f"{n}{h}" for n in ("zero_shot", "dpr", "npc") for h in ("", "_hybrid")),
    }
    own = [row["value"] for row in table.to_pylist() if (row["system"], row["measure"]) == ("npc", "nDCG@10")]
    assert len(own) == 12 and np.mean(own) == pytest.approx(float(version.tags["nDCG_10"]), abs=1e-6)
    assert (version.tags["system"], version.tags["seed"], len(version.tags["recipe"])) == ("npc", "42", 64)


def test_the_versions_files_and_tags_say_how_to_combine_it_with_bm25(tracked):
    home, outcome = tracked
    client, version = connect(home).client, challenger(home)
    logged = client.get_logged_model(version.source.removeprefix("models:/"))
    (file,) = Path(urlsplit(logged.artifact_location).path).rglob("hybrid.json")
    how = json.loads(file.read_text())
    (fusion,) = Store(home / "store", home=home).builds.table(outcome.kept["fusion"]).to_pylist()
    assert {name: how[name] for name in fusion} == fusion and how["bm25"]["engine"] == "bm25s"
    assert version.tags["hybrid_by"] == "sum" and float(version.tags["hybrid_weight"]) == fusion["weight"]
    assert "### With BM25" in version.description


def test_a_model_that_is_no_better_than_none_is_registered_by_force_alone(collection: Path, home: Path):
    refused = run_tiny(home, collection, "register_if=better")
    assert refused.facts["refused"] == MODEL_NAME and "registered" not in refused.facts
    again = run_tiny(home, collection, "register_if=better")
    assert again.executed == 0 and again.facts == refused.facts
    forced = run_tiny(home, collection)
    assert forced.executed == 1 and forced.facts["registered"] == f"{MODEL_NAME} v1"


def test_the_logged_model_carries_its_own_measures(tracked):
    home, _ = tracked
    client, version = connect(home).client, challenger(home)
    logged = client.get_logged_model(version.source.removeprefix("models:/"))
    assert logged.status == "READY"
    assert {metric.key for metric in logged.metrics} == {"nDCG_10", "RR_10", "R_100"}
    digest = version.tags["eval_digest"][:36]
    assert {(one.dataset_name, one.dataset_digest) for one in logged.metrics} == {("demo evaluation", digest)}
    inputs = client.get_run(version.run_id).inputs.dataset_inputs
    assert [(one.dataset.name, one.dataset.digest) for one in inputs] == [("demo evaluation", digest)]


def test_a_request_to_mlflows_own_server_is_answered(tracked):
    from mlflow.models import convert_input_example_to_serving_input, validate_serving_input

    home, _ = tracked
    with connect(home).current():
        (one,) = validate_serving_input(CHALLENGER, convert_input_example_to_serving_input(TEXTS[:1]))
        asked = {"inputs": TEXTS, "params": {"side": "passage"}}
        several = validate_serving_input(CHALLENGER, json.dumps(asked))
    assert len(several) == len(TEXTS) and {len(vector) for vector in several} == {len(one)}


def test_a_fresh_process_without_noisyir_gets_our_vectors(tracked):
    home, outcome = tracked
    code = (
        "import sys, json; sys.modules['noisyir'] = None; import mlflow; uri, texts = sys.argv[1], sys.argv[2:];"
        "model = mlflow.pyfunc.load_model(uri);"
        "print(json.dumps([model.predict(texts), model.predict(texts, params={'side': 'passage'})]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, CHALLENGER, *TEXTS],
        env={
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "HF_HUB_OFFLINE": "1",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    encoder = load_bi_encoder(Store(home / "store", home=home).builds.folder(outcome.kept["model"]), "cpu")
    for side, vectors in zip(("query", "passage"), json.loads(done.stdout), strict=True):
        ours = encoder.embed(encoder.tokenize(TEXTS, side), side).detach().numpy()
        np.testing.assert_allclose(np.array(vectors), ours, atol=1e-5)


def test_input_that_is_not_text_is_refused(tracked):
    from mlflow import pyfunc
    from mlflow.exceptions import MlflowException

    home, _ = tracked
    with connect(home).current():
        model = pyfunc.load_model(CHALLENGER)
    with pytest.raises(MlflowException, match="Expected type str"):
        model.predict([1])
    with pytest.raises(ValueError, match="side is query or passage"):
        model.predict(["a"], params={"side": "both"})
    assert model.metadata.signature.inputs.to_dict() == [{"type": "string", "required": True}]
    assert model.input_example == ["your question"]


def test_no_file_of_the_registered_model_is_a_pickle(tracked):
    home, _ = tracked
    files = [path for path in (home / "mlflow-artifacts" / "models").rglob("*") if path.is_file()]
    assert {"pyfunc_retriever.py", "model.safetensors", "requirements.txt", "MLmodel"} <= {path.name for path in files}
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".pt", ".bin")]


def test_the_same_bytes_are_registered_once_and_another_model_is_the_next_version(
    registered, collection: Path, monkeypatch: pytest.MonkeyPatch
):
    home, first = registered
    again = run_tiny(home, collection, refresh=("report",))
    assert again.executed == 1
    assert again.facts["registered"] == first.facts["registered"]
    assert again.facts["mlflow_run"] != first.facts["mlflow_run"]
    asked, send = [], MlflowClient.set_model_version_tag
    monkeypatch.setattr(MlflowClient, "set_model_version_tag", lambda *words: (asked.append(words), send(*words)))
    other = run_tiny(home, collection, "train.epochs=3")
    assert other.facts["registered"] == f"{MODEL_NAME} v2"
    assert int(challenger(home).version) == 2 and not asked, "a new version comes with its tags"


def test_the_evaluation_digest_changes_with_what_models_are_measured_by_and_not_with_the_model(
    registered, collection: Path
):
    home, _ = registered
    before = challenger(home).tags
    run_tiny(home, collection, "score.measures=[nDCG@10]")
    after = challenger(home).tags
    assert after["eval_digest"] != before["eval_digest"] and after["evaluation_run"] != before["evaluation_run"]
    assert "RR_10" in before and "RR_10" not in after, "what another evaluation measured is gone"
    run_tiny(home, collection, "train.epochs=3")
    assert challenger(home).tags["eval_digest"] == before["eval_digest"]


def test_the_recipe_is_all_but_the_seed(tiny, registered):
    home, outcome = registered
    store, model = Store(home / "store", home=home), outcome.kept["model"]
    same = recipe(tiny(), store, model)
    assert same == challenger(home).tags["recipe"]
    assert recipe(tiny("seed=7", "report.examples=1", "name=other", "hybrid=null"), store, model) == same
    moved = tiny().model_copy(update={"data": tiny().data.model_copy(update={"path": "/elsewhere"})})
    assert recipe(moved, store, model) == same, "where the data lies is not what it is"
    assert recipe(tiny("train.epochs=3"), store, model) != same


@pytest.mark.parametrize("uri", ["models:/nothing@challenger", f"models:/{MODEL_NAME}/99", "models:/"])
def test_a_model_that_is_not_registered_is_one_clear_line(tracked, uri: str):
    with pytest.raises(StoreError, match=f"^no registered model {uri} at sqlite:///"):
        find_version(connect(tracked[0]), uri)


def test_what_stands_in_the_registry_is_told_each_version_once(registered):
    home, _ = registered
    version = challenger(home)
    for alias in ("champion", "champion-tiny", "champion-other"):
        connect(home).client.set_registered_model_alias(MODEL_NAME, alias, version.version)
    (found,) = standing(home)
    assert (found["aliases"], found["version"]) == (["champion", "challenger"], str(version.version))
    assert found["measures"]["nDCG_10"] == float(version.tags["nDCG_10"])


def test_damage_in_mlflows_copy_and_database_is_told_and_the_advised_command_mends_the_copy(
    tracked, registered, capsys, monkeypatch
):
    home, _ = registered
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:  # the copied home has files of its own
        database.execute("UPDATE logged_models SET artifact_location = replace(artifact_location, ?, ?)",
                         (str(tracked[0]), str(home)))  # fmt: skip
    (copy,) = registered_copies(home)
    assert main(["store", "verify"]) == 0
    path = copy.folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert main(["store", "verify"]) == 1
    (advised,) = re.findall(r": (noisyir store verify.*)", capsys.readouterr().err)
    assert main(shlex.split(advised)[1:]) == 0 and path.read_bytes() == whole
    assert main(["store", "verify"]) == 0
    shutil.rmtree(copy.folder)
    assert main(["store", "verify", "--repair"]) == 0 and path.read_bytes() == whole
    database = (home / "mlflow.db").read_bytes()
    (home / "mlflow.db").write_bytes(database[: len(database) // 2])
    capsys.readouterr()
    assert main(["store", "verify"]) == 1
    assert f"{home}/mlflow.db" in (said := capsys.readouterr().err) and "put a backup of it back" in said
