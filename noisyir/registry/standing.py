"""Champions and challengers of the registry, with their measures."""

from pathlib import Path
from typing import Any

from noisyir.base.errors import ConfigError
from noisyir.engine.outside_errors import is_from_outside, one_line, without_password
from noisyir.registry.backend import Backend, connect
from noisyir.registry.card import Version
from noisyir.registry.kinds import kinds
from noisyir.registry.registry import CHALLENGER, CHAMPION, aliased


def standing(home: Path) -> list[dict[str, Any]]:
    """Facts of every version with an alias."""
    backend, found = connect(home), []
    for kind in kinds():
        for alias, version in _aliases(backend, kind.name):
            tags = version.tags
            measure = kind.measure.replace("@", "_")
            measures = {name: float(value) for name, value in tags.items() if name.startswith(measure)}
            facts = {"version": version.version, "experiment": tags.get("experiment", "")}
            found.append({"name": kind.name, "alias": alias, **facts, "measures": measures})
    return found


def _aliases(backend: Backend, name: str) -> list[tuple[str, Version]]:
    """Aliases with their versions: `champion`, `challenger`, then experiments' own for other versions."""
    try:
        models = backend.client.search_registered_models(f"name = '{name}'")
        known = {alias: str(number) for model in models for alias, number in model.aliases.items()}
        plain = [alias for alias in (CHAMPION, CHALLENGER) if alias in known]
        own = [
            (role, alias) for alias in sorted(known) for role in (CHAMPION, CHALLENGER) if alias.startswith(f"{role}-")
        ]
        others = [alias for role, alias in own if known[alias] != known.get(role)]
        return [(alias, found) for alias in (*plain, *others) if (found := aliased(backend, name, alias))]
    except Exception as error:
        if not is_from_outside(error):
            raise
        raise ConfigError("registry.mlflow_failed", uri=without_password(backend.uri), fault=one_line(error)) from error
