"""What is behind a bench: the settings of its builds, those that were varied among them, and what it took."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from noisyir.engine.builds import Meta


def facts(builds: Sequence[Meta]) -> dict[str, str]:
    """A few lines on the data, the model and the work; what no build tells is absent."""
    first: dict[str, Mapping[str, Any]] = {}
    for meta in builds:
        first.setdefault(meta.stage, meta.params)
    told = {
        "data": first.get("ingest", {}).get("kind"),
        "backbone": first.get("init_model", {}).get("backbone"),
        "epochs": first.get("train_dpr", {}).get("epochs"),
        "builds": f"{len(builds):,}" if builds else None,
        "computing time": _duration(sum(meta.seconds for meta in builds)) if builds else None,
    }
    return {name: str(value) for name, value in told.items() if value is not None}


def settings(builds: Sequence[Meta]) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """For each stage: (setting, its value or values, whether the builds of that stage differ in it), seeds included."""
    stages: dict[str, list[Meta]] = {}
    for meta in builds:
        stages.setdefault(meta.stage, []).append(meta)
    return [(stage, found) for stage, metas in stages.items() if (found := _settings(metas))]


def environment(builds: Sequence[Meta]) -> dict[str, str]:
    """Code and packages that made the builds, each with its version, or versions."""
    versions: dict[str, dict[str, None]] = {}
    for meta in builds:
        versions.setdefault("code", {})[meta.git_commit or "an installed package"] = None
        for name, version in sorted(meta.packages.items()):
            versions.setdefault(name, {})[version] = None
    return {name: ", ".join(found) for name, found in versions.items()}


def _settings(metas: Sequence[Meta]) -> list[tuple[str, str, bool]]:
    values: dict[str, dict[str, None]] = {}
    for meta in metas:
        own = {} if meta.seed is None else {"seed": meta.seed}
        for name, value in {**own, **meta.params}.items():
            values.setdefault(name, {})[json.dumps(value, ensure_ascii=False)] = None
    return [(name, " | ".join(found), len(found) > 1) for name, found in values.items()]


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
