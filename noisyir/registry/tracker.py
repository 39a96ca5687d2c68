"""The tracker that keeps nothing, which the others extend: it follows a run."""

from collections.abc import Mapping

from noisyir.engine.meta import Ref
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store


class Tracker(Observer):
    """Observes a pipeline run and keeps what it saw; this one keeps nothing but `tags`."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        self.lost = False  # whether what it keeps things in went away on the way

    def ready(self, new: bool) -> None:
        """ConfigError where what is to be tracked could not be; new: whether a stage would run."""

    def tag(self, name: str, value: str) -> None:
        """Add a fact about the run that only its engine knows, such as a flow run's id."""
        self.tags[name] = value

    def run_id(self, begin: bool = True) -> str | None:
        """An address by which another process puts its stages under this run; None where nothing is tracked.

        begin: make the run if nothing has made it yet.
        """
        return None

    def abort(self, error: BaseException) -> None:
        """End the run as failed, or as killed where the user interrupted it."""

    def finish(self, store: Store, results: Mapping[str, Ref]) -> dict[str, str]:
        """End the run: keep its measures and report, register its models; what to tell the user, by name.

        results are the run's named outputs: model, ranker, reader, comparison, report; none of them need be there.
        """
        return {}
