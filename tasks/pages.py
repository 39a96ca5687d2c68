"""Where a browser finds a flow run."""

from uuid import UUID

from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL


def flow_run_page(run: UUID | str) -> str | None:
    """The run's page; None without a server that outlives the run."""
    api = PREFECT_API_URL.value()
    base = PREFECT_UI_URL.value() or (api.removesuffix("/api") if api else None)
    return f"{base}/runs/flow-run/{run}" if base else None
