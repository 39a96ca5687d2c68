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
    """Facts of every version with an alias, each once."""
    backend, found = connect(home), []
    for kind in kinds():
        for aliases, version in _aliased(backend, kind.name):
            tags = version.tags
            measure = kind.measure.replace("@", "_")
            measures = {name: float(value) for name, value in tags.items() if name.startswith(measure)}
            facts = {"version": version.version, "experiment": tags.get("experiment", "")}
            found.append({"name": kind.name, "aliases": aliases, **facts, "measures": measures})
    return found


def _aliased(backend: Backend, name: str) -> list[tuple[list[str], Version]]:
    """Versions with their aliases: `champion`, `challenger`, and experiments' own that say more."""
    try:
        models = backend.client.search_registered_models(f"name = '{name}'")
        known = {alias: str(number) for model in models for alias, number in model.aliases.items()}
        of: dict[str, list[str]] = {}
        for alias in sorted(known, key=lambda alias: (alias != CHAMPION, alias != CHALLENGER, alias)):
            role, _, own = alias.partition("-")
            if role in (CHAMPION, CHALLENGER) and not (own and known[alias] == known.get(role)):
                of.setdefault(known[alias], []).append(alias)
        return [(aliases, found) for aliases in of.values() if (found := aliased(backend, name, aliases[0]))]
    except Exception as error:
        if not is_from_outside(error):
            raise
        raise ConfigError("registry.mlflow_failed", uri=without_password(backend.uri), fault=one_line(error)) from error
