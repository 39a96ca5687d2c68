"""A plan of small steps that write texts, in a module that the processes of its steps load quickly."""

import os
import signal
import time

from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError
from noisyir.base.settings import Params
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Job, Observer, Stage

NOTE = Artifact("note", 1)


class Says(Params):
    """What a stage does."""

    text: str = ""
    seconds: float = 0.0
    fault: str | None = None


def say(job: Job[Says]) -> None:
    """Write the text behind those of the inputs, after a while, or fail."""
    job.progress(1, 2, "words")
    job.metric("loss", 0.5, 3)
    time.sleep(job.params.seconds)
    folder = job.new_folder("note")
    before = [(job.store.builds.folder(ref) / "text").read_text() for ref in job.refs("before").values()]
    (folder / "text").write_text("".join([*before, job.params.text]))
    job.note("threads", job.runtime.cpu_threads)
    if job.params.fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.params.fault:
        raise DataError(job.params.fault)


SAY = Stage("say", 1, Says, {"before": NOTE.all().each()}, {"note": NOTE}, say, seeded=True)


class Watched(Observer):
    """Notes what begins, fails and is finished."""

    def __init__(self) -> None:
        self.finished_steps: list[tuple[str, bool]] = []
        self.events: list[tuple[str, str]] = []

    def started(self, step):
        self.events.append(("started", step.name))

    def progress(self, step, done, total, unit):
        self.events.append((f"{done} of {total} {unit}", step.name))

    def metric(self, step, name, value, at):
        self.events.append((f"{name} {value} at {at}", step.name))

    def failed(self, step, error):
        self.events.append(("failed", step.name))

    def finished(self, step, meta, cached):
        self.finished_steps.append((step.name, cached))
        self.events.append(("finished", step.name))


def plan_of(*, seconds: float = 0.2, **faults: str) -> Plan:
    """Two branches of some seconds from one step, and one that joins them."""
    plan = Plan(0)

    def add(name: str, seconds: float = 0.0, **before) -> None:
        params = Says(text=name, seconds=seconds, fault=faults.get(name))
        plan.keep(**{name: plan.add(SAY, params, name, before={n: plan.results[o] for n, o in before.items()})["note"]})

    add("a")
    add("b", seconds, one="a")
    add("c", seconds, one="a")
    add("d", one="b", two="c")
    return plan


def text_of(store, meta):
    return (store.builds.folder(meta.ref("note")) / "text").read_text()
