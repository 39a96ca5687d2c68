"""Why a step would run: what of its key differs from the newest build of that step."""

from collections.abc import Mapping, Sequence
from typing import Any

from noisyir.engine.builds import Meta, Ref
from noisyir.engine.plan import Forecast
from noisyir.engine.stage import Output, Step
from noisyir.engine.store import Store
from noisyir.settings import flat

_DEFAULT = "its default"


def changes(states: Sequence[Forecast], store: Store, experiment: str) -> dict[str, list[str]]:
    """For each step that would run, by name, what differs from its newest build; no build is a reason, too."""
    builds, waiting = _newest_builds(store, experiment), {e.step.name: e.step for e in states if e.state == "would run"}
    return {name: _differences(step, builds.get(name), set(waiting)) for name, step in waiting.items()}


def _newest_builds(store: Store, experiment: str) -> dict[str, Meta]:
    """The newest build of each step, by its name: of this experiment's runs, else of any."""
    metas = {(meta.key, meta.build): meta for meta in store.all_builds()}
    found: dict[str, Meta] = {}
    for run in sorted(store.runs(), key=lambda run: run["experiment"] != experiment):  # newest first, ours before all
        for name, step in run["steps"].items():
            if meta := metas.get((step["key"], step["build"])):
                found.setdefault(name, meta)
    return found


def _differences(step: Step, before: Meta | None, waiting: set[str]) -> list[str]:
    if before is None:
        return ["never built under this name"]
    said = []
    if step.stage.version != before.version:
        said.append(f"version {before.version} -> {step.stage.version}")
    if step.seed != before.seed:
        said.append(f"seed {before.seed} -> {step.seed}")
    said += _settings(before.in_key, step.params.key_values())
    for name, value in step.inputs.items():
        said += _input(name, value, before.inputs.get(name), waiting)
    said += [f"input {name}: not given now" for name in before.inputs if name not in step.inputs]
    return said or ["nothing in its key: it is asked for by --refresh, or what it was made from has other bytes"]


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    old, new = flat(before), flat(now)
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name, _DEFAULT) != new.get(name, _DEFAULT)]
    return [f"{name} {old.get(name, _DEFAULT)} -> {new.get(name, _DEFAULT)}" for name in names]


def _input(
    name: str, now: str | Ref | Output | Mapping[str, Ref | Output], before: Any, waiting: set[str]
) -> list[str]:
    """What is new about one input; of labelled ones, about each label."""
    if isinstance(now, Mapping):
        labels = before if isinstance(before, Mapping) else {}
        gone = [f"input {name}.{label}: not given now" for label in labels if label not in now]
        return gone + [
            text for label, one in now.items() for text in _input(f"{name}.{label}", one, labels.get(label), waiting)
        ]
    if before is None:
        return [f"input {name}: new"]
    if isinstance(now, str):
        return [] if now == before else [f"raw input {name}: its content has changed"]
    if isinstance(now, Output) and now.step in waiting:
        return [f"input {name}: {now.step} would run"]
    if (now.key, now.artifact) != (before["key"], before["artifact"]):
        return [f"input {name}: another build of {now.stage}"]
    return []
