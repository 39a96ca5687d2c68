"""kill -9 of everything that a run is made of: it ends well or fails clearly, and the next run finds what was done."""

import json

import pytest

from tests.e2e.site import kill, process_of, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
ON_DEMAND = "train_retriever/on-demand"
LONG = ("train.epochs=800", "train.patience=null")  # a quarter of a minute of training, in which things are killed


@pytest.fixture
def training(site, parameters):
    """A run that trains now: its id, its child's id, and the parameters."""
    given = parameters(*LONG, to="train_dpr", runtime={"checkpoint_seconds": 3})
    run = site.start(ON_DEMAND, **given)

    def started():
        found = [child for child in site.children(run) if child["state_type"] == "RUNNING"]
        work = list((site.home / "store" / ".work").glob("train_dpr-*/*"))
        return found and work and found[0]["id"]

    return run, wait_until(started, "a child that trains", 600), given


def completes(site, given):
    """Run once more: everything that is needed is there or is built, and nothing is damaged."""
    assert site.end(site.start(ON_DEMAND, **given)) == "COMPLETED"
    assert "damaged" not in site.noisyir("store", "verify")
    states = {run["state"] for run in json.loads(site.noisyir("status", "--json"))["runs"]}
    assert "running" not in states
    assert not list((site.home / "store" / ".staging").glob("*"))


def test_a_stages_process(site, training):
    run, child, given = training
    kill(process_of(child))
    assert site.end(run) == "COMPLETED"
    assert [one["state_type"] for one in site.children(run)] == ["CRASHED", "COMPLETED"]
    completes(site, given)


def test_the_gpu_worker(site, training):
    run, child, given = training
    kill(site.pid("gpu"))
    site.up()
    assert site.end(run) == "COMPLETED"
    assert site.end(child) in ("COMPLETED", "CRASHED")
    completes(site, given)


def test_the_drivers_flow(site, training):
    run, child, given = training
    kill(process_of(run))
    assert site.end(run, 60) == "CRASHED"
    site.end(child)
    completes(site, given)


def test_the_driver_with_its_worker_is_a_zombie_for_a_while_only(site, training):
    run, _, given = training
    kill(site.pid("driver"))
    kill(process_of(run))
    assert site.end(run, 90 + 60) == "CRASHED"
    assert "Nothing was heard of it" in site.message(run)
    site.up()
    completes(site, given)


@pytest.mark.parametrize("server", ["prefect", "postgres", "mlflow"])
def test_a_server(site, training, server):
    if server == "postgres" and not (site.home / "servers" / "postgres").is_dir():
        pytest.skip("no Postgres on this machine: Prefect and MLflow run on SQLite")
    run, _, given = training
    kill(site.pid(server))
    site.up()
    assert site.end(run) in ("COMPLETED", "FAILED", "CRASHED")
    completes(site, given)


def test_cancelling_the_parent_cancels_the_child(site, training):
    run, child, given = training
    body = {"state": {"type": "CANCELLING"}, "force": False}
    site.api.post(f"/flow_runs/{run}/set_state", json=body).raise_for_status()
    assert (site.end(run, 120), site.end(child, 120)) == ("CANCELLED", "CANCELLED")
    states = site.api.get("/flow_run_states/", params={"flow_run_id": child}).raise_for_status().json()
    assert "the run that waits for it was cancelled" in {state["message"] for state in states}
    wait_until(lambda: process_of(child) is None, "the end of the child's process", 60)
    completes(site, given)
