"""A job, and a step, as they travel to another process: nothing that is open, and no plan."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Job, Observer, Step
from noisyir.engine.store import Store


def bare(step: Step) -> Step:
    """The step as it travels: what is planned does not, what is resolved does."""
    return replace(step, inputs={})


@dataclass(frozen=True)
class PortableJob:
    """A job on its way to another process, which sees the same store and home."""

    step: Step
    inputs: Inputs
    url: str
    home: Path
    runtime: Runtime
    staging: Path
    work: Path

    @classmethod
    def of(cls, job: Job[Any]) -> Self:
        """What another process needs to make this job anew."""
        store = job.store
        return cls(bare(job.step), job.inputs, store.url, store.home, job.runtime, job.staging, job.work)

    def open(
        self, runtime: Runtime, observer: Observer, kind: type[Job[Any]] = Job, home: Path | None = None
    ) -> Job[Any]:
        """The job, with the settings of the machine that it has come to, and its home where it has another."""
        store = Store(self.url, home=home or self.home)
        work = store.work_named(self.work.name)
        return kind(
            self.step, self.step.params, self.inputs, store, runtime, observer, self.staging, work, builds=False
        )
