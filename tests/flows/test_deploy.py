"""Deploying again leaves people's schedules as they are."""

from datetime import timedelta

import pytest

pytestmark = pytest.mark.usefixtures("prefect_api")


def test_what_was_switched_on_stays_on_and_what_is_gone_comes_back():
    from prefect import get_client
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

    from flows.promote import promote
    from infra.bootstrap import restore, schedules

    nightly = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 2 * * *"), active=False, slug="nightly")
    own = DeploymentScheduleCreate(schedule=IntervalSchedule(interval=timedelta(hours=7)), active=True)
    with get_client(sync_client=True) as client:
        made = client.create_deployment(client.create_flow(promote), "scheduled", schedules=[nightly])

        def present():
            return {one.slug: one for one in client.read_deployment(made).schedules}

        client.update_deployment_schedule(made, present()["nightly"].id, active=True)
        client.create_deployment_schedules(made, [own])
        before = schedules(client)

        client.update_deployment_schedule(made, present()["nightly"].id, active=False)
        client.delete_deployment_schedule(made, present()[None].id)
        for _ in range(2):
            restore(client, before)
            assert present()["nightly"].active
            assert present()[None].schedule.interval == timedelta(hours=7) and present()[None].active
            assert len(present()) == 2
        client.delete_deployment(made)
