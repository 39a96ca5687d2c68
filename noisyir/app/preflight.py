"""Pre-flight checks: fail before the first stage or right after ingest, not after hours."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from noisyir.app.dry_run import estimates
from noisyir.engine.build_stage import Result
from noisyir.engine.meta import Meta
from noisyir.engine.plan import Choice, Forecast, Plan, forecast
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Pool, SplitCounts, Step
from noisyir.engine.store import Store
from noisyir.errors import StoreError
from noisyir.stages.data.ingest import INGEST
from noisyir.tracking.tracker import Tracker


@dataclass(frozen=True)
class Preflight:
    """Whether a run can end well.  elsewhere: pools whose machines are not looked at."""

    plan: Plan
    choice: Choice
    store: Store
    runtime: Runtime
    elsewhere: Collection[Pool] = ()

    def before(self, tracker: Tracker) -> None:
        """Ask stages, device, tracker and disk, and data that was read before.  NoisyirError for what is missing."""
        states = forecast(self.plan, self.choice, self.store)
        would_run = [entry.step for entry in states if entry.state == "would run"]
        here = [step for step in would_run if step.stage.pool not in self.elsewhere]
        for step in here:
            step.stage.check_ready(step.params)
        if self.runtime.device != "auto" and any(step.stage.pool == "gpu" for step in here):
            from noisyir.models.bi_encoder import choose_device

            choose_device(self.runtime.device)
        tracker.ready(bool(would_run))
        for entry in states:
            if entry.meta and entry.step.stage.name == INGEST.name:
                self._check_data(entry.step, entry.meta, would_run)
        self._check_space(states)

    def after(self, step: Step, result: Result) -> None:
        """The same of data, once it is read; nothing after other stages.  DataError, StoreError."""
        if step.stage.name == INGEST.name and not result.cached:
            states = forecast(self.plan, self.choice, self.store)
            self._check_data(step, result.meta, [entry.step for entry in states if entry.state == "would run"])
            self._check_space(states)

    def _check_data(self, ingest: Step, meta: Meta, would_run: Sequence[Step]) -> None:
        asking = [step for step in _made_from(ingest, self.plan.steps) if step in would_run and step.stage.fits]
        if asking:
            counts = split_counts(self.store, meta)
            for step in asking:
                assert step.stage.fits is not None
                step.stage.fits(step.params, counts)

    def _check_space(self, states: Sequence[Forecast]) -> None:
        """StoreError where, by the newest builds of its steps, the run would fill the disk of the store."""
        if not self.store.is_local or not self.runtime.disk_check:
            return
        needed = sum(estimate.size for estimate in estimates(states, self.store, "").values())
        free = shutil.disk_usage(self.store.root).free
        if needed > free:
            raise StoreError(
                f"the run would leave about {needed / 1e9:,.1f} GB in the store, and {self.store.root} has "
                f"{free / 1e9:,.1f} GB free: free space, name a store on another disk with --store, or, if "
                "this run needs less than its last builds did, set runtime.disk_check=false"
            )


def split_counts(store: Store, ingest: Meta) -> SplitCounts:
    """How many queries each split of the read data has, and how many training pairs there are."""
    queries, pairs = (store.builds.table(ingest.ref(name), ["split"])["split"] for name in ("queries", "pairs"))
    found = {row["values"]: row["counts"] for row in pc.value_counts(queries).to_pylist()}
    return SplitCounts(found, pc.sum(pc.equal(pairs, "train")).as_py() or 0)


def _made_from(first: Step, steps: Sequence[Step]) -> Iterator[Step]:
    """The steps of a plan that need this one, directly or not."""
    behind = {first.name}
    for step in steps:
        if any(output.step in behind for output in step.outputs_needed()):
            behind.add(step.name)
            yield step
