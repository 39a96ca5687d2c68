"""Runs on pools: which worker has which stage, what a re-run does, schedules, two runs at once, a fully cached run."""

import itertools
import json
from datetime import datetime
from typing import Any

import pytest

from tests.e2e.site import process_of, wait_until
from tests.flows.test_bench_command import SUITE
from tests.flows.test_nightly import judge

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
ON_DEMAND = "train_retriever/on-demand"


def test_stages_run_on_their_pools_and_again_only_what_changed(site, parameters):
    # a collection of its own, as ingest does not depend on the seed
    given = parameters("data.max_held_out=11", pools={"elsewhere": ["cpu", "gpu"]})
    first = site.start(ON_DEMAND, **given)
    assert site.end(first) == "COMPLETED"
    sent = [name for child in site.children(first) for name in child["name"].split(", ")]
    assert len(sent) == len(set(sent)) and len(site.children(first)) < 5
    pools = pools_of_steps(site.children(first))
    assert {name for name, pool in pools.items() if pool == "cpu"} >= {"ingest", "bm25_index", "bm25", "corrupt"}
    assert {name for name, pool in pools.items() if pool == "gpu"} >= {"train_dpr@dpr", "encode@dpr", "index@dpr"}
    for name, pool in pools.items():
        assert name in site.log(pool)

    again = site.start(ON_DEMAND, **given)
    assert site.end(again) == "COMPLETED"
    assert (site.children(again), site.built(again)) == ([], set())

    one = site.start(ON_DEMAND, **{**given, "refresh": ["encode@dpr"]})
    assert site.end(one) == "COMPLETED"
    assert site.built(one) == {"encode@dpr"}  # to the same bytes: what follows stays

    lines = site.api.post(
        "/logs/filter", json={"logs": {"flow_run_id": {"any_": [site.children(one)[0]["id"]]}}, "limit": 50}
    ).json()
    said = next(line["message"] for line in lines if line["message"].startswith("built "))
    assert f"run={one}" in said and "step=encode@dpr" in said and "key=" in said and "mlflow=" in said


def test_audits_benches_and_single_stages_use_the_pools_too(site, parameters):
    # collections of their own, as above
    given = parameters("data.max_held_out=10", pools={"elsewhere": ["cpu", "gpu"]})
    bench = ["methods=[dpr]", "experiment.data.max_held_out=9"]
    cleaned = [*given["overrides"], "detect.assume=random"]  # else nobody vouches for what is cleaned
    suite = site.home / "tiny.yaml"
    suite.write_text(SUITE.format(path=site.home / "beir"))
    runs = [
        site.start("denoise/on-demand", data="demo", overrides=cleaned, apply=True, force=True),
        site.start("bench_noise/weekly", suite=str(suite), seeds=1, jobs=2, overrides=bench),
    ]
    assert [site.end(run) for run in runs] == ["COMPLETED", "COMPLETED"]
    for run, on_gpu in zip(runs, ({"score_pairs"}, {"train_dpr", "encode", "index"}), strict=True):
        pools = {name.partition("@")[0]: pool for name, pool in pools_of_steps(site.children(run)).items()}
        assert {name for name, pool in pools.items() if pool == "gpu"} >= on_gpu
        assert pools["ingest"] == "cpu"
    assert list((site.home / "audits" / "demo" / runs[0]).glob("*.cleaned.*"))

    one = site.start("single_stage/on-demand", **{**given, "stage": "ingest", "refresh": True})
    assert site.end(one) == "COMPLETED"
    assert [(child["name"], child["work_pool_name"]) for child in site.children(one)] == [("ingest", "cpu")]
    assert site.built(one) == {"ingest"}


def test_the_registry_and_status_tell_of_a_run(site, parameters):
    run = site.start(ON_DEMAND, **parameters("data.promotion_share=0.5"))
    assert site.end(run) == "COMPLETED"
    told = json.loads(site.noisyir("status", "--json"))
    assert told["runs"][0]["state"] == "done" and told["runs"][0]["page"].endswith(run)
    assert {"name": "noisyir-retriever", "aliases": ["challenger"]}.items() <= told["models"][0].items()

    promotion = site.start("promote/on-demand", force=True)  # so few queries are no match for BM25
    assert site.end(promotion) == "COMPLETED"
    assert "champion" in site.noisyir("promote", "noisyir-retriever", "--log")
    hits = json.loads(site.noisyir("search", "models:/noisyir-retriever@champion", "sail in the harbour", "--json"))
    assert hits["hits"]

    new = site.home / "new.jsonl"
    new.write_text(json.dumps({"_id": "n1", "title": "sailing", "text": "sail sail harbour regatta sextant"}) + "\n")
    refreshed = site.start(
        "refresh_corpus/on-demand", model="models:/noisyir-retriever@champion", documents=str(new),
        pools={"elsewhere": ["gpu"]},
    )  # fmt: skip
    assert site.end(refreshed) == "COMPLETED", site.message(refreshed)
    assert {name.partition("@")[0] for name in pools_of_steps(site.children(refreshed))} >= {"encode_new"}


def test_two_runs_at_once_build_each_stage_once(site, parameters):
    given = parameters()
    both = [site.start(name, **given) for name in (ON_DEMAND, "train_retriever/nightly")]
    assert [site.end(run) for run in both] == ["COMPLETED", "COMPLETED"]
    built = [site.built(run) for run in both]
    assert not built[0] & built[1]


def test_a_schedule_fires_on_time_and_one_run_at_a_time(site, parameters):
    nightly = site.deployment("train_retriever/nightly")["id"]
    every = 5  # seconds, less than a run takes
    schedule = {
        "active": True,
        "schedule": {"interval": every},
        "parameters": parameters(to="ingest", refresh=["ingest"]),
    }
    body = site.api.post(f"/deployments/{nightly}/schedules", json=[schedule]).raise_for_status().json()

    def runs():
        found = site.flow_runs(deployments={"id": {"any_": [nightly]}})
        return [run for run in found if run["auto_scheduled"] and run["start_time"]]

    def ended():
        return [run for run in runs() if run["end_time"] and run["state_type"] == "COMPLETED"][:3]

    try:
        left_out = False

        def three_ended():
            nonlocal left_out
            found = site.flow_runs(deployments={"id": {"any_": [nightly]}})
            left_out = left_out or any(run["state_type"] == "CANCELLED" for run in found)
            return len(ended()) == 3

        wait_until(three_ended, "three scheduled runs", 900)
    finally:
        site.api.delete(f"/deployments/{nightly}/schedules/{body[0]['id']}").raise_for_status()
        for run in site.flow_runs(deployments={"id": {"any_": [nightly]}}):
            if run["state_type"] in ("SCHEDULED", "PENDING"):
                site.api.delete(f"/flow_runs/{run['id']}")
    assert left_out, "no run was left out because of the one before it"
    times = sorted((_time(run["start_time"]), _time(run["end_time"])) for run in ended())
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(times))


def test_a_night_waits_for_a_person_without_a_process_and_goes_on_when_it_is_resumed(site, parameters):
    given = parameters("data.promotion_share=0.5", gate={"min_seeds": 1}, ask={"above": 0.2})
    run = site.start("nightly/on-demand", **given)
    wait_until(lambda: site.state(run) == "PAUSED", "the question", 900)
    wait_until(lambda: process_of(run) is None, "the end of its process")
    judge(site.home / "audits" / "demo" / run)
    site.api.post(f"/flow_runs/{run}/resume").raise_for_status()
    assert site.end(run) == "COMPLETED" and "the gate is by queries alone" in site.message(run)


def pools_of_steps(children: list[dict[str, Any]]) -> dict[str, str]:
    """By step, the pool that it was sent to; a flow run is called after the steps that it does."""
    return {name: child["work_pool_name"] for child in children for name in child["name"].split(", ")}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
