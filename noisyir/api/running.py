"""With what Python's calls run: a store, the machine's settings, and whether progress is shown."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyir.api.progress import progress_for
from noisyir.api.settings import overrides_of
from noisyir.app.runs import Outcome, run_experiment
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store, open_store
from noisyir.experiments import is_runtime, load_runtime
from noisyir.pipelines.experiment import Experiment
from noisyir.tracking.tracker import Tracker

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Running:
    """Where results are kept and looked for, and on what machine work is done."""

    store: Store
    runtime: Runtime
    progress: bool

    @property
    def home(self) -> Path:
        """The folder beside the store, for what was given."""
        return self.store.home

    def run(self, exp: Experiment, pipeline: Callable[[Experiment], Plan]) -> Outcome:
        """Run a pipeline of an experiment; what is in the store already is not made again."""
        self.store.check_writable()
        with progress_for(self.progress) as observer:
            return run_experiment(
                exp, Choice(), pipeline=pipeline,
                store=self.store, runtime=self.runtime, tracker=Tracker(), observer=observer,
            )  # fmt: skip


def running(
    settings: Settings | None, store: str | os.PathLike[str] | None, progress: bool
) -> tuple[Running, list[str]]:
    """With what to run, and the settings that are the experiment's, as overrides.  ConfigError as of an experiment."""
    overrides = overrides_of(settings)
    runtime = load_runtime([text for text in overrides if is_runtime(text)])
    opened = open_store(None if store is None else os.fspath(store))
    return Running(opened, runtime, progress), [text for text in overrides if not is_runtime(text)]
