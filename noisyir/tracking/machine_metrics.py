"""How busy the machine is while a stage runs, GPUs included, as MLflow measures it: `system/...` in its run."""

import os
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from noisyir.engine.stage import Pool

SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"  # MLflow's own; unset: where there is a GPU, for stages that want one


class Monitor(Protocol):
    """MLflow's monitor, which has no types."""

    def start(self) -> None:
        """Begin to measure."""

    def finish(self) -> None:
        """Send what was measured, and end."""


def begin_monitor(run_id: str, pool: "Pool", tracking_uri: str) -> Monitor | None:
    """A thread that measures every ten seconds ($MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL), until it is finished.

    None where that is switched off, or the machine has no GPU that could be asked.
    """
    wanted = os.environ.get(SWITCH, "").lower()
    if wanted in ("false", "0") or (not wanted and not (pool == "gpu" and _has_gpu())):
        return None
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor: Monitor = SystemMetricsMonitor(run_id, tracking_uri=tracking_uri)  # type: ignore[no-untyped-call]
    monitor.start()
    return monitor


@cache
def _has_gpu() -> bool:
    """Whether NVIDIA's library is there and knows a GPU; it makes no CUDA context, as torch would."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount())
    except Exception:
        return False
