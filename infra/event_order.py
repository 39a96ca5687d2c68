"""The order in which Prefect's automations see events; its setting PREFECT_SERVER_EVENTS_CAUSAL_ORDERING names this.

Prefect holds an event back until the one before has come, for a quarter of an hour at most.  Its scheduler emits none
when it makes a run.  The states of a run that begins within five minutes of that were held back all the time: alarms
came late, and a run that waited for a person counted as silent.
"""

from prefect.server.events.ordering import memory
from prefect.server.events.schemas.events import ReceivedEvent


class CausalOrdering(memory.CausalOrdering):
    """Prefect's own, in which an event after a Scheduled state waits for none."""

    async def wait_for_leader(self, event: ReceivedEvent) -> None:
        """Return when the event before was seen.  EventArrivedEarly holds this one back."""
        before = event.payload.get("initial_state") or {}
        if before.get("type") != "SCHEDULED":
            await super().wait_for_leader(event)
