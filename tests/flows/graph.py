"""The graph on a flow run's page, as Prefect's server gives it to a browser."""

import time
from itertools import pairwise
from typing import Any
from uuid import UUID

from noisyir.engine.stage import Step

_PATIENCE_SECONDS = 60.0


def nodes_of(flow_run: UUID | str, count: int) -> list[dict[str, Any]]:
    """The boxes; task runs travel as events, so this asks until there are `count` that have ended."""
    from prefect import get_client

    end = time.monotonic() + _PATIENCE_SECONDS
    with get_client(sync_client=True) as client:
        while True:
            graph = client._client.get(f"/flow_runs/{flow_run}/graph-v2").raise_for_status().json()
            nodes = [node for _, node in graph["nodes"]]
            if sum(bool(node["end_time"]) for node in nodes) >= count or time.monotonic() > end:
                return nodes
            time.sleep(0.2)


def arrows(nodes: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """From and to, by what stands on the boxes; the server lists a parent as often as that has parents itself."""
    labels = {node["id"]: node["label"] for node in nodes}
    return {(labels[parent["id"]], node["label"]) for node in nodes for parent in node["parents"]}


def arrows_of_plan(steps: list[Step]) -> set[tuple[str, str]]:
    """The plan's edges, less those that a longer way implies, found by looking at every way."""
    needs = {step.name: {output.step for output in step.outputs_needed()} for step in steps}

    def ways(name: str) -> list[list[str]]:
        return [[name]] + [[*way, name] for before in needs[name] for way in ways(before)]

    all_ways = [way for name in needs for way in ways(name)]
    between = {(way[0], way[-1]) for way in all_ways if len(way) > 2}
    return {edge for way in all_ways for edge in pairwise(way)} - between
