"""What a stage tells, in Prefect's terms: log lines of the task run, and a table of what it wrote."""

import re
import time

from prefect.artifacts import create_table_artifact
from prefect.logging import get_run_logger

from noisyir.engine.meta import Meta
from noisyir.engine.stage import Observer, Step

PROGRESS_EVERY_SECONDS = 15.0


class PrefectObserver(Observer):
    """Follows one task run; make it inside the run, whose logger it takes."""

    def __init__(self) -> None:
        self._log = get_run_logger()
        self._told = time.monotonic()

    def started(self, step: Step) -> None:
        """Log the key that is being built."""
        self._log.info("building %s", step.key)

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Log how far the stage is, now and then: every line is a row in Prefect's database."""
        now = time.monotonic()
        if now - self._told >= PROGRESS_EVERY_SECONDS:
            self._told = now
            self._log.info("%s of %s %s", f"{done:,}", "?" if total is None else f"{total:,}", unit)

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
        create_table_artifact(
            key=re.sub(r"[^a-z0-9]+", "-", step.name.lower()).strip("-"),
            table=[
                {"artifact": name, "rows": contents.rows, "path": meta.ref(name).path, "digest": contents.digest}
                for name, contents in meta.artifacts.items()
            ],
            description=f"{step.name}: {meta.seconds:.1f} s, {meta.size:,} bytes",
        )
