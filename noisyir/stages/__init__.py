"""Stages, by subject: declarations, and the few lines that join tables to maths; no equation, no loop.

A stage has a file of its own, but for those that share most of their lines, as encode and encode_new do.
"""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from noisyir.engine.stage import Stage
from noisyir.errors import ConfigError
from noisyir.settings import Params


@cache
def known_stages() -> dict[str, Stage]:
    """Every stage of noisyir itself, by name."""
    modules = [import_module(module.name) for module in walk_packages(__path__, f"{__name__}.")]
    return {value.name: value for module in modules for value in vars(module).values() if isinstance(value, Stage)}


def stage_named(name: str) -> Stage:
    """The stage of this name.  ConfigError when this version of noisyir has none."""
    try:
        return known_stages()[name]
    except KeyError as error:
        raise ConfigError(f"this version of noisyir has no stage {name!r}") from error


def stage_of(settings: Params) -> Stage:
    """The stage whose settings these are."""
    return next(stage for stage in known_stages().values() if stage.params is type(settings))
