"""The builds behind a report: what each is called, and which systems it serves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noisyir.engine.builds import Meta, Ref


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
    several times is told apart by the system that it serves: `encode@dpr`.
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


def _name(meta: Meta, users: Sequence[str], *, several: bool) -> str:
    if not several or len(users) != 1 or users[0] == meta.stage:
        return meta.stage
    return f"{meta.stage}@{users[0]}"


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
