"""Processors and memory that the steps of a run need: measured by former builds, else rehearsed."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace

from noisyir.app.dry_run import estimates, rehearsals
from noisyir.engine.needs import Needs
from noisyir.engine.plan import Choice, Plan, forecast
from noisyir.engine.store import Store

run_needs: ContextVar[Callable[[], Mapping[str, Needs]]] = ContextVar("run_needs", default=dict)
"""The needs by name of the steps that the run at work would build, for callers that choose machines."""


def needs_of_plan(plan: Plan, choice: Choice, store: Store, experiment: str) -> dict[str, Needs]:
    """Return needs by name of the steps that would run; GPU memory that no build measured is the rehearsed step's."""
    states = forecast(plan, choice, store)
    needs = {name: found.needs for name, found in estimates(states, store, experiment).items()}
    for one in rehearsals(states, store):
        for name in one.steps if one.costs else ():
            known = needs.get(name, Needs())
            rehearsed = max(cost.memory for cost in one.costs)
            needs[name] = replace(known, gpu_memory=known.gpu_memory or rehearsed)
    return needs
