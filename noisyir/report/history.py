"""The builds behind a report: what each is called, what it took, and the settings that make it again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noisyir.builds import Meta, Ref
from noisyir.config import Experiment, Params

# Where an experiment keeps a stage's settings, when not under the stage's own name.
_SECTIONS = {"ingest": "data", "corrupt": "noise", "init_model": "model", "warm_up": "train"}


@dataclass(frozen=True)
class Build:
    """One build, named for the page; `systems` are those whose result depends on it."""

    name: str
    meta: Meta
    systems: tuple[str, ...]
    sources: tuple[str, ...]


def name_builds(metas: Sequence[Meta], systems: Mapping[str, Sequence[Ref]]) -> list[Build]:
    """The builds, in the order given (inputs first), each under a name of its own.

    systems: label to the artifacts that only this system has, such as its run and metrics.  A stage that was built
    several times is told apart by the system that it serves: `encode@trained`.
    """
    by_id = {_identity(meta): meta for meta in metas}
    users: dict[tuple[str, str], list[str]] = {build: [] for build in by_id}
    for label, refs in systems.items():
        for build in _behind({(ref.key, ref.build) for ref in refs}, by_id):
            users[build].append(label)
    names: dict[tuple[str, str], str] = {}
    for build, meta in by_id.items():
        name = _name(meta, users[build], several=sum(other.stage == meta.stage for other in metas) > 1)
        names[build] = name if name not in names.values() else f"{name} {meta.key[:6]}"
    return [
        Build(
            names[build],
            meta,
            tuple(users[build]),
            tuple(dict.fromkeys(names[ref.key, ref.build] for _, ref in meta.input_refs())),
        )
        for build, meta in by_id.items()
    ]


def experiment_settings(name: str, metas: Sequence[Meta], own: Params) -> dict[str, Any]:
    """What an experiment's YAML file must say to make these builds again: everything that differs from the defaults.

    Where a stage ran with several settings, those of the build nearest to the end count: a pipeline calls a stage
    with settings of its own only for what feeds training, such as the search that negatives are mined from.
    """
    found = {"report": own.model_dump(mode="json")}
    for meta in _nearest_first(metas):
        found.setdefault(_SECTIONS.get(meta.stage, meta.stage), dict(meta.params))
    settings: dict[str, Any] = {"name": name}
    seeds = [meta.seed for meta in metas if meta.seed is not None]
    if seeds and seeds[-1] != Experiment.model_fields["seed"].default:
        settings["seed"] = seeds[-1]
    for section, field in Experiment.model_fields.items():
        if isinstance(field.default, Params) and section in found:
            defaults = field.default.model_dump(mode="json")
            changed = {key: value for key, value in found[section].items() if value != defaults.get(key)}
            if changed:
                settings[section] = changed
    return settings


def _name(meta: Meta, users: Sequence[str], *, several: bool) -> str:
    if not several or len(users) != 1 or users[0] == meta.stage:
        return meta.stage
    return f"{meta.stage}@{users[0]}"


def _nearest_first(metas: Sequence[Meta]) -> list[Meta]:
    """Breadth first, from the builds that no other was made from."""
    by_id = {_identity(meta): meta for meta in metas}
    used = {(ref.key, ref.build) for meta in metas for _, ref in meta.input_refs()}
    found = {build: by_id[build] for build in by_id if build not in used}
    waiting = list(found)
    for build in waiting:
        for _, ref in by_id[build].input_refs():
            if (source := (ref.key, ref.build)) not in found:
                found[source] = by_id[source]
                waiting.append(source)
    return list(found.values())


def _behind(start: set[tuple[str, str]], by_id: Mapping[tuple[str, str], Meta]) -> set[tuple[str, str]]:
    seen: set[tuple[str, str]] = set()
    waiting = list(start)
    while waiting:
        build = waiting.pop()
        if build not in seen:
            seen.add(build)
            waiting += [(ref.key, ref.build) for _, ref in by_id[build].input_refs()]
    return seen


def _identity(meta: Meta) -> tuple[str, str]:
    return meta.key, meta.build
