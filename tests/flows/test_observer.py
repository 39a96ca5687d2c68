"""What a stage tells, in Prefect's terms."""

import pytest

from noisyir.base.settings import Params
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Observer, Stage
from noisyir.engine.store import Store
from noisyir.evaluation.artifacts import REPORT

pytestmark = pytest.mark.usefixtures("prefect_api")


def test_progress_is_one_artifact_that_moves_and_no_line_of_the_log(store: Store, monkeypatch, caplog):
    import httpx
    from prefect import flow, get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    from noisyir.tasks import observer, stage_task

    monkeypatch.setattr(observer, "PROGRESS_EVERY_SECONDS", 0.0)
    seen, away = [], iter([False, True, False])
    update = observer.update_progress_artifact

    def watched(artifact, percent, said):
        if next(away, False):
            raise httpx.ConnectError("the server is being started again")
        seen.append(percent)
        update(artifact, percent, said)

    monkeypatch.setattr(observer, "update_progress_artifact", watched)

    def work(job: Job[Params]) -> None:
        for done in range(1, 5):
            job.progress(done, 4, "rows")
        (job.new_folder("report") / "report.html").write_text("done")

    plan = Plan(0)
    plan.add(Stage("slow_one", 1, Params, {}, {"report": REPORT}, work), Params())

    @flow
    def once() -> None:
        with stage_task.through_tasks(store=store, runtime=Runtime(), observer=Observer()) as run_step:
            run_step(plan.steps[0], {}, False)

    once()
    with get_client(sync_client=True) as client:
        chosen = ArtifactFilter(key=ArtifactFilterKey(any_=["slow-one-progress"]))
        (bar,) = client.read_artifacts(artifact_filter=chosen)
    assert bar.data == 100.0 and bar.description.startswith("slow_one: built in") and seen == [50.0, 100.0, 100.0]
    assert bar.task_run_id is not None
    lines = [line.getMessage() for line in caplog.records if "of 4 rows" in line.getMessage()]
    assert len(lines) == 1 and "did not take it" in lines[0]
