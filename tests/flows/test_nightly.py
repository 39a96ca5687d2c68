"""A night as a flow: it trains the seeds that its gate wants, and tells what the gate said."""

import json
import os
import re
import shlex

import pyarrow.parquet as pq
import pytest

from noisyir.base.errors import ConfigError
from noisyir.evaluation.settings import PromoteParams
from noisyir.registry.backend import connect
from tests.tiny import SETTINGS, tiny_data

pytestmark = pytest.mark.usefixtures("prefect_api")


@pytest.fixture
def given(tracked_home, tmp_path, monkeypatch):
    """Overrides of a tiny night, in a home of its own."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return (*SETTINGS, *tiny_data(tmp_path / "beir"), "methods=[dpr]", "data.promotion_share=0.5", "seed=5")


def test_a_night_trains_what_its_gate_wants_and_the_first_model_becomes_champion(given, tmp_path):
    from prefect.client.orchestration import get_client
    from prefect.variables import Variable

    from noisyir.flows.nightly import nightly

    Variable.set("seed_of_the_night", ["seed=5"])
    state = nightly("demo", given[:-1], PromoteParams(min_seeds=1), variable="seed_of_the_night", return_state=True)
    assert state.is_completed() and "the gate is by queries alone" in state.message, state.message
    (version,) = connect(tmp_path).client.search_model_versions("name = 'noisyir-retriever'")
    assert version.tags["seed"] == "5" and "noisyir-retriever v1 refused" in state.message  # BM25 is perfect there
    with get_client(sync_client=True) as client:
        trained = client.read_flow_run(version.tags["flow_run"])
        assert client.read_flow_run(state.state_details.flow_run_id).name == "night of demo"
    assert trained.parent_task_run_id and "noisyir" in trained.tags, "else it stays Running when the night is killed"


def test_a_night_reads_further_settings_of_a_prefect_variable_and_the_advised_command_sets_one(tmp_path, capsys):
    import subprocess
    import sys

    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.settings import PREFECT_API_URL
    from prefect.variables import Variable

    from noisyir.flows.nightly import settings_of
    from noisyir.flows.scheduling import schedule

    with get_client(sync_client=True) as client:
        if "driver" not in {pool.name for pool in client.read_work_pools()}:
            client.create_work_pool(WorkPoolCreate(name="driver", type="process"))
    how = {"timezone": None, "environment": None, "overrides": ("seed=7",), "night": {"variable": "night_settings"}}
    with pytest.raises(ConfigError, match="night_settings is None, and no list of settings") as refused:
        schedule("demo", "0 2 * * *", **how)
    typed = shlex.split(str(refused.value).partition("type ")[2])
    here = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value()}
    subprocess.run([sys.executable, "-m", *typed], check=True, capture_output=True, env=here)
    assert settings_of("night_settings") == ("train.epochs=3",)
    Variable.set("night_settings", ["train.epoch=3"], overwrite=True)
    with pytest.raises(ConfigError, match="epoch"):
        schedule("demo", "0 2 * * *", **how)
    Variable.set("night_settings", "train.epochs=3", overwrite=True)
    with pytest.raises(ConfigError, match="no list of settings"):
        settings_of("night_settings")


JUDGED = 40


def judge(folder):
    """Somebody finds some pairs of a written audit right."""
    rows = pq.read_table(folder / "audit.parquet", columns=["query_id", "doc_id"]).sort_by("query_id").to_pylist()
    more = {"verdict": "clean", "judge": "ann", "weight": 1.0, "replacement": None, "at": "2026-01-01T00:00:00+00:00"}
    (folder / "judgements.jsonl").write_text("".join(json.dumps(row | more) + "\n" for row in rows[:JUDGED]))


def begun(client, run):
    """A worker takes the run, which ends or is suspended; its state then."""
    from prefect.exceptions import Pause
    from prefect.flow_engine import load_flow_run, run_flow

    from noisyir.flows.nightly import nightly

    found = load_flow_run(run)
    try:
        run_flow(nightly, flow_run=found, parameters=nightly.validate_parameters(found.parameters), return_type="state")
    except Pause:
        pass
    return client.read_flow_run(run).state


@pytest.mark.slow
def test_a_night_asks_and_is_suspended_until_somebody_has_judged_and_resumed_it(given, tmp_path):
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
    from prefect.flow_runs import resume_flow_run

    from noisyir.flows.nightly import nightly

    parameters = {"experiment": "demo", "overrides": given, "gate": {"min_seeds": 1}, "ask": {"above": 0.2}}
    deployment = nightly.to_deployment("asks", parameters=parameters).apply()
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(deployment).id
        assert begun(client, run).name == "Suspended"
        meanwhile = begun(client, client.create_flow_run_from_deployment(deployment).id)
        assert meanwhile.is_completed() and f"the flow run {run} asks already" in meanwhile.message
        of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
        (link,) = [found for found in client.read_artifacts(artifact_filter=of_run) if found.key == "judging-page"]
        folder = tmp_path / "audits" / "demo" / str(run)
        assert f"file://{folder / 'judge.html'}" in link.data
        assert f"--out {folder} --judge" in link.description and (folder / "judge.html").is_file()

        judge(folder)
        resume_flow_run(run)
        state = begun(client, run)
        assert state.is_completed() and "the gate is by queries alone" in state.message, state.message

        unanswered = client.create_flow_run_from_deployment(
            deployment, parameters={**parameters, "ask": {"above": 0.01}}
        ).id
        assert begun(client, unanswered).name == "Suspended", "the judgements carried over do not show as little"
        resume_flow_run(unanswered)
        state = begun(client, unanswered)
    assert state.is_completed() and state.message.startswith("not trained, and the champion stays: 0.0 % to ")
    assert state.message.endswith("of the pairs are wrong, by 40 judgements; the limit is 1.0 %")


def test_without_judgements_and_without_a_deployment_nothing_is_trained(given, tmp_path):
    from noisyir.flows.nightly import nightly
    from noisyir.flows.stops import AskFirst

    with pytest.raises(ConfigError, match=r"ask.judged: .*judgements.jsonl is not there"):
        nightly("demo", given, ask=AskFirst(above=0.2, judged=str(tmp_path)))
    state = nightly("demo", given, ask=AskFirst(above=0.2), return_state=True)
    assert (
        state.is_completed() and "nobody has judged a random sample of the pairs; the limit is 20.0 %" in state.message
    )
    assert not connect(tmp_path).client.search_model_versions()


def test_data_with_a_fault_is_not_trained_on(given, tmp_path):
    from noisyir.flows.nightly import nightly

    with (tmp_path / "beir" / "qrels" / "train.tsv").open("a") as file:
        file.write("nobody\td1\t1\n")
    state = nightly("demo", given, fail_on=("ids",), return_state=True)
    assert state.is_completed() and state.message.startswith("not trained, and the champion stays: ids."), state.message
    with pytest.raises(ConfigError, match="idz"):
        nightly("demo", given, fail_on=("idz",))


def test_a_model_that_is_not_worth_using_is_refused_with_the_setting_that_registers_it(given, tmp_path):
    from noisyir.flows.nightly import nightly

    given = (*(one for one in given if not one.startswith("register_if")), "seed=6")
    refused = nightly("demo", given, PromoteParams(min_seeds=1), return_state=True)
    assert refused.is_completed() and refused.message.startswith("refused: with seed 6 it is not worth using")
    (cure,) = re.findall(r"\w+=always", refused.message)
    state = nightly("demo", (*given, cure), PromoteParams(min_seeds=1), return_state=True)
    assert state.message.startswith("noisyir-retriever v1 refused: "), state.message
