"""Every stage by name: found in the `stages` of each room and in the methods; no stage is declared here."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from noisyir.base.errors import ConfigError
from noisyir.base.variants import entries
from noisyir.engine.stage import Stage

_ROOMS = ("data", "models", "retrieval", "training", "corruption", "detection", "mining", "evaluation", "audits")
HOMES = (*(f"noisyir.{room}.stages" for room in _ROOMS), "noisyir.methods")
GROUP = "noisyir.stages"


@cache
def known_stages() -> dict[str, Stage]:
    """Return every stage by name: noisyir's own, and the stages that other packages register."""
    homes = [*map(import_module, HOMES), *entries(GROUP)]
    return {stage.name: stage for home in homes for stage in _stages_in(home)}


def _stages_in(home: ModuleType) -> Iterator[Stage]:
    """Yield a module's own stages or, if it has none, the stages of the modules in it."""
    own = [value for value in vars(home).values() if isinstance(value, Stage)]
    yield from own
    for module in iter_modules(getattr(home, "__path__", ()) if not own else ()):
        yield from _stages_in(import_module(f"{home.__name__}.{module.name}"))


def stage_named(name: str) -> Stage:
    """Return the stage of this name.

    Raises:
        ConfigError: If this version of noisyir has none.
    """
    with ConfigError.wrapping("engine.version_noisyir_no_stage", KeyError, name=name):
        return known_stages()[name]
