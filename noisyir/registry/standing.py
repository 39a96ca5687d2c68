"""Champions and challengers of the registry, with their measures."""

from itertools import product
from pathlib import Path
from typing import Any

from noisyir.base.errors import ConfigError
from noisyir.engine.outside_errors import is_from_outside, one_line, without_password
from noisyir.registry.backend import Backend, connect
from noisyir.registry.card import Version
from noisyir.registry.kinds import kinds
from noisyir.registry.registry import CHALLENGER, CHAMPION, aliased


def standing(home: Path) -> list[dict[str, Any]]:
    """Facts of every version with an alias.

    Raises:
        ConfigError: If the registry is damaged or does not answer.
    """
    backend, found = connect(home), []
    for kind, alias in product(kinds(), (CHAMPION, CHALLENGER)):
        if version := _version(backend, kind.name, alias):
            tags = version.tags
            measure = kind.measure.replace("@", "_")
            measures = {name: float(value) for name, value in tags.items() if name.startswith(measure)}
            facts = {"version": version.version, "experiment": tags.get("experiment", "")}
            found.append({"name": kind.name, "alias": alias, **facts, "measures": measures})
    return found


def _version(backend: Backend, name: str, alias: str) -> Version | None:
    try:
        return aliased(backend, name, alias)
    except Exception as error:
        if not is_from_outside(error):
            raise
        raise ConfigError("registry.mlflow_failed", uri=without_password(backend.uri), fault=one_line(error)) from error
