"""What Prefect's server has recorded of a flow run."""

import time
from typing import Any
from uuid import UUID

_PATIENCE_SECONDS = 120.0


def read_flow_run(flow_run_id: UUID) -> Any:
    from prefect import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(flow_run_id)


def task_runs(flow_run_id: UUID, count: int) -> list[Any]:
    """The task runs, the first started first.

    Their states travel as events and are written in batches after the flow has returned, so this asks until count of
    them have ended, and gives what there is after two minutes.
    """
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    end = time.monotonic() + _PATIENCE_SECONDS
    with get_client(sync_client=True) as client:
        while True:
            found = client.read_task_runs(flow_run_filter=chosen)
            ended = [run for run in found if run.start_time and run.state and run.state.is_final()]
            if len(found) == len(ended) >= count or time.monotonic() > end:
                return sorted(ended, key=lambda run: run.start_time)
            time.sleep(0.1)
