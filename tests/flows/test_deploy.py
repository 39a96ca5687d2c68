"""Deploying again leaves people's schedules as they are."""

from datetime import timedelta

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("prefect_api")]


def test_what_was_switched_on_stays_on_and_what_is_gone_comes_back(monkeypatch):
    from prefect import get_client
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import IntervalSchedule
    from prefect.settings import PREFECT_API_URL

    from infra import bootstrap

    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
    monkeypatch.delenv("NOISYIR_ROOT", raising=False)
    own = DeploymentScheduleCreate(schedule=IntervalSchedule(interval=timedelta(hours=7)), active=True)
    with get_client(sync_client=True) as client:

        def present(name):
            deployment = client.read_deployment_by_name(name)
            return deployment.id, {one.slug: one for one in deployment.schedules}

        for pool in bootstrap.POOLS:
            bootstrap.ensure_pool(client, pool, None, None)
        assert bootstrap.deploy(client) == 0
        nightly, schedules = present("train_retriever/nightly")
        weekly, of_weekly = present("bench_noise/weekly")
        (step,) = client.read_deployment(nightly).pull_steps
        assert step["prefect.deployments.steps.set_working_directory"]["directory"] == str(bootstrap.FOLDER.parent)
        assert not schedules["nightly"].active and schedules["nightly"].schedule.cron == "0 2 * * *"
        client.update_deployment_schedule(nightly, schedules["nightly"].id, active=True)
        client.create_deployment_schedules(nightly, [own])
        client.delete_deployment_schedule(weekly, of_weekly["weekly"].id)

        assert bootstrap.deploy(client) == 0
        _, schedules = present("train_retriever/nightly")
        assert len(schedules) == 2 and schedules["nightly"].active
        assert schedules[None].active and schedules[None].schedule.interval == timedelta(hours=7)
        assert not present("bench_noise/weekly")[1]["weekly"].active


def test_at_the_root_prefect_finds_what_is_declared():
    from infra import bootstrap

    assert (bootstrap.FOLDER.parent / "prefect.yaml").resolve() == bootstrap.FOLDER / "prefect.yaml"
