"""The machine that a pool is asked for: a step's needs as variables of the pool's job template."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any

from prefect import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun, State

from noisyir.engine.needs import Needs

Variables = Mapping[str, str]
SPARE, STEP_MIB = 1.5, 256  # of memory: times what former builds needed, in such steps
MEMORY, GPU_MEMORY = ("memory_request", "memory_limit", "mem_limit"), ("gpu_memory",)
_KILLED = r"\bOOM|(?:status code:?|exit code) (?:137|-9)\b"
_RAISED = r"(?<!OutOf)MemoryError|out of memory|memory does not suffice|allocate memory"
_LACK = re.compile(rf"{_KILLED}|{_RAISED}", re.IGNORECASE)


@dataclass(frozen=True)
class Machine:
    """What jobs of a pool can be asked for; `given` are values by variable that hold unless asked for others."""

    kind: str
    given: Mapping[str, Any]
    fixed: frozenset[str] = frozenset()  # by the deployment, which people set

    @classmethod
    def of(cls, deployment: str) -> "Machine":
        """The machines of a deployment's pool: its job template, with the values that the deployment sets."""
        with get_client(sync_client=True) as client:
            found = client.read_deployment_by_name(deployment)
            pool = client.read_work_pool(str(found.work_pool_name))
        known = pool.base_job_template.get("variables", {}).get("properties", {})
        defaults = {name: about.get("default") for name, about in known.items()}
        return cls(pool.type, {**defaults, **found.job_variables}, frozenset(found.job_variables))

    def takes_needs(self) -> bool:
        """Whether its template has variables for needs, as templates of containers do."""
        return bool(self.given.keys() & {*MEMORY, *GPU_MEMORY})

    def variables(self, needs: Needs, gpus: int) -> dict[str, str]:
        """The needs under the names that the template knows: of Kubernetes, and of Docker."""
        asked = {"gpus": str(gpus)} if gpus > 1 else {}
        if needs.processors:
            asked["cpu_request"] = f"{max(1.0, ceil(2 * needs.processors) / 2):g}"
        if needs.memory:
            mib = STEP_MIB * ceil(needs.memory * SPARE / 2**20 / STEP_MIB)
            asked |= {"memory_request": f"{mib}Mi", "memory_limit": f"{mib}Mi", "mem_limit": f"{mib}m"}
        if needs.gpu_memory:
            asked["gpu_memory"] = str(ceil(needs.gpu_memory / 2**20))
        fixed = self.fixed.union(MEMORY) if self.fixed & {*MEMORY} else self.fixed  # a request stays below its limit
        return {name: value for name, value in asked.items() if name in self.given and name not in fixed}

    def more(self, asked: Variables, said: str) -> dict[str, str]:
        """The variables with twice the memory that was lacking; the same where the pool cannot give it."""
        lacking = GPU_MEMORY if "CUDA" in said else MEMORY
        now = {name: str(asked.get(name) or self.given.get(name) or "") for name in lacking}
        return {**asked, **{name: _twice(value) for name, value in now.items() if value}}


def lack_of_memory(child: FlowRun, state: "State[object]") -> str | None:
    """The line of a child's end or, where it crashed, of its log that says that memory did not suffice; else None."""
    said = [] if state.is_completed() else [state.message or ""]
    if state.is_crashed():  # a pod's OOMKilled is in the log alone
        with get_client(sync_client=True) as client:
            found = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[child.id])))
        said += [line.message for line in found]
    return next((line for line in said if _LACK.search(line)), None)


def in_words(asked: Variables) -> str:
    """The variables as people write them."""
    return ", ".join(f"{name}={value}" for name, value in asked.items()) or "what the pool's template has"


def _twice(quantity: str) -> str:
    return re.sub(r"^[\d.]+", lambda number: f"{2 * Decimal(number[0]):f}", quantity)
