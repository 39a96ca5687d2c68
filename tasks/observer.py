"""What a stage tells, in Prefect's terms: log lines of the task run, and a table of what it wrote."""

import re
import time
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.logging import get_run_logger

from noisyir.engine.meta import Meta
from noisyir.engine.stage import Observer, Step

PROGRESS_EVERY_SECONDS = 5.0


class PrefectObserver(Observer):
    """Follows one task run; make it inside the run, whose logger it takes."""

    def __init__(self) -> None:
        self._log = get_run_logger()
        self._told = time.monotonic()
        self._bar: UUID | None = None

    def started(self, step: Step) -> None:
        """Log the key that is being built."""
        self._log.info("building %s", step.key)

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Keep one artifact up to date with how far the stage is; a line of a log would be a row of Prefect's each."""
        if time.monotonic() - self._told >= PROGRESS_EVERY_SECONDS:
            far = f"{step.name}: {done:,} of {'?' if total is None else f'{total:,}'} {unit}"
            self._show(step, 100 * min(1.0, done / total) if total else 0.0, far)

    def _show(self, step: Step, percent: float, far: str) -> None:
        try:
            if self._bar is None:
                self._bar = create_progress_artifact(percent, f"{artifact_key(step.name)}-progress", far)  # type: ignore[assignment]  # a coroutine in async code only
            else:
                update_progress_artifact(self._bar, percent, far)
        except httpx.HTTPError as error:  # the stage goes on while Prefect's server is away
            self._log.warning("%s; Prefect's server did not take it: %s", far, error)
        self._told = time.monotonic()

    def said(self, step: Step, text: str) -> None:
        """Log it, line by line."""
        for line in text.splitlines():
            self._log.info("%s", line)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Log where the result is; a build that is new also becomes a table in the flow run's artifacts."""
        if cached:
            self._log.info("cached: %s/%s", meta.key, meta.build)
            return
        self._log.info("built %s/%s in %.1f s", meta.key, meta.build, meta.seconds)
        if self._bar:
            self._show(step, 100.0, f"{step.name}: built in {meta.seconds:.0f} s")
        create_table_artifact(
            key=artifact_key(step.name),
            table=[
                {"artifact": name, "rows": contents.rows, "path": meta.ref(name).path, "digest": contents.digest}
                for name, contents in meta.artifacts.items()
            ],
            description=f"{step.name}: {meta.seconds:.1f} s, {meta.size:,} bytes",
        )


def artifact_key(name: str) -> str:
    """The name in the letters that Prefect allows in keys."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
