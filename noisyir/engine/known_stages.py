"""Every stage by name: found in the `stages` of each room and in the methods; no stage is declared here."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from noisyir.base.errors import ConfigError
from noisyir.base.settings import Params
from noisyir.base.variants import entries
from noisyir.engine.stage import Stage

_ROOMS = ("data", "models", "retrieval", "training", "corruption", "detection", "mining", "evaluation", "audits")
HOMES = (*(f"noisyir.{room}.stages" for room in _ROOMS), "noisyir.methods")
GROUP = "noisyir.stages"


@cache
def known_stages() -> dict[str, Stage]:
    """Every stage, by name: those of noisyir, and those in the modules that other packages name in the group."""
    homes = [*map(import_module, HOMES), *entries(GROUP)]
    return {stage.name: stage for home in homes for stage in _stages_in(home)}


def _stages_in(home: ModuleType) -> Iterator[Stage]:
    """Its own stages, else those of the modules in it: what lies beside a stage is loaded when the stage runs."""
    own = [value for value in vars(home).values() if isinstance(value, Stage)]
    yield from own
    for module in iter_modules(getattr(home, "__path__", ()) if not own else ()):
        yield from _stages_in(import_module(f"{home.__name__}.{module.name}"))


def stage_named(name: str) -> Stage:
    """The stage of this name.  ConfigError when this version of noisyir has none."""
    try:
        return known_stages()[name]
    except KeyError as error:
        raise ConfigError("engine.version_noisyir_no_stage", name=name) from error


def stage_of(settings: Params) -> Stage:
    """The stage whose settings these are."""
    return next(stage for stage in known_stages().values() if stage.params is type(settings))
