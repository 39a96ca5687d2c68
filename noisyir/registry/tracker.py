"""The base of trackers, which keeps nothing."""

from collections.abc import Mapping

from noisyir.engine.meta import Ref
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store


class Tracker(Observer):
    """Observes a pipeline run; this one keeps nothing but `tags`."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        self.lost = False  # whether its backend went away

    def ready(self, new: bool) -> None:
        """Check the backend; `new` says whether a stage would run.

        Raises:
            ConfigError: If the run could not be tracked.
        """

    def tag(self, name: str, value: str) -> None:
        """Add an engine's fact about the run, such as a flow run's id."""
        self.tags[name] = value

    def run_id(self, begin: bool = True) -> str | None:
        """The run's id for other processes, created if `begin`; None if nothing is tracked."""
        return None

    def abort(self, error: BaseException) -> None:
        """End the run as failed, or as killed if the user interrupted it."""

    def finish(self, store: Store, results: Mapping[str, Ref]) -> dict[str, str]:
        """End the run: keep measures and report, register models; returns facts for the user by name."""
        return {}

    def repeat(self, store: Store, results: Mapping[str, Ref], earlier: str | None, cached: int) -> None:
        """Keep a row of a run that built nothing, with the measures and the id of the `earlier` run."""
