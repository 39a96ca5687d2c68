"""The flow that promotes: its decision is the library's, shown as an artifact and as the state's message."""

import time

import pytest

from noisyir.base.errors import StoreError
from noisyir.engine.store import Store
from noisyir.evaluation.settings import PromoteParams
from noisyir.registry.backend import connect
from noisyir.registry.promote import decisions

pytestmark = pytest.mark.usefixtures("prefect_api")


def test_a_refusal_completes_and_says_why_and_a_version_that_is_not_there_fails(tracked_home, tmp_path):
    from prefect import get_client

    from noisyir.flows.promote import promote

    with pytest.raises(StoreError, match="no registered model models:/noisyir-reader@challenger"):
        promote("noisyir-reader")
    client = connect(tmp_path).client
    client.create_registered_model("noisyir-retriever")
    run = client.create_run(client.create_experiment("made")).info.run_id
    client.create_model_version("noisyir-retriever", f"runs:/{run}/model", run, tags={"artifact_digest": "d"})
    state = promote(version="1", params=PromoteParams(min_gain=0.1), return_state=True)
    assert state.is_completed() and state.message.startswith("noisyir-retriever v1 refused; v1 has no values")
    (line,) = decisions(Store(tmp_path / "store", home=tmp_path))
    assert line["flow_run"] == str(state.state_details.flow_run_id) and line["thresholds"]["min_gain"] == 0.1
    with get_client(sync_client=True) as client:
        pages = [found for found in client.read_artifacts() if found.key == "noisyir-retriever"]
    (page,) = [found for found in pages if found.flow_run_id == state.state_details.flow_run_id]
    assert page.data == state.message


def test_a_decision_that_repeats_the_versions_last_one_is_told_once(tracked_home, tmp_path):
    from prefect import get_client

    from noisyir.flows.promote import promote

    client = connect(tmp_path).client
    client.create_registered_model("noisyir-reader")
    run = client.create_run(client.create_experiment("made")).info.run_id
    for _ in range(2):
        client.create_model_version("noisyir-reader", f"runs:/{run}/model", run, tags={"artifact_digest": "d"})
    for version in ("1", "1", "2", "1", "2"):
        assert promote("noisyir-reader", version, return_state=True).is_completed()
    assert len(decisions(Store(tmp_path / "store", home=tmp_path))) == 5
    promote("noisyir-reader", "2", params=PromoteParams(split="dev"))  # for another reason
    wanted = {"resource": {"id": ["noisyir.model.noisyir-reader"]}, "order": "ASC"}
    told: list[str] = []
    end = time.monotonic() + 120
    with get_client(sync_client=True) as prefect:
        while len(told) < 3 and time.monotonic() < end:  # events are written in batches
            time.sleep(0.5)
            found = prefect.request("POST", "/events/filter", json={"filter": wanted}).json()["events"]
            told = [event["resource"]["noisyir.version"] for event in found]
    assert told == ["1", "2", "2"]
