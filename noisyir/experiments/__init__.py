"""Experiments that ship with noisyir, one YAML file each, and how they are read; settings alone, no defaults.

What an experiment is made of is imported when one is read, so that a name costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from noisyir.data.limits import SETTINGS
from noisyir.engine.outside_errors import one_line
from noisyir.errors import ConfigError, did_you_mean
from noisyir.experiments.strict_yaml import parse_yaml
from noisyir.faults import faults
from noisyir.settings import Params, as_group

if TYPE_CHECKING:
    from noisyir.auditing.asking.settings import AskParams
    from noisyir.engine.runtime import Runtime
    from noisyir.pipelines.experiment import Experiment
    from noisyir.pipelines.settings import RefreshCorpusParams
    from noisyir.pipelines.suite import Suite

P = TypeVar("P", bound=Params)


def names(folder: str = "") -> list[str]:
    """The experiments that ship with noisyir, or the suites of the bench (`suites`)."""
    inside = files(__name__).joinpath(folder) if folder else files(__name__)
    return sorted(item.name.removesuffix(".yaml") for item in inside.iterdir() if item.name.endswith(".yaml"))


def load(name_or_path: str, overrides: Sequence[str] = ()) -> Experiment:
    """An experiment by its name or its file's path, `key.path=value` overrides applied, and what is left out chosen.

    ConfigError for an unknown name, a file that is not YAML, an unknown key (with a suggestion) or a bad value.
    """
    from noisyir.pipelines.left_out import filled_in

    return filled_in(from_settings(_read(name_or_path), overrides, name_or_path))


def from_settings(settings: dict[str, Any], overrides: Sequence[str], source: str = "settings") -> Experiment:
    """An experiment that differs from the defaults by `settings` and overrides.  ConfigError as `load`."""
    from noisyir.pipelines.experiment import Experiment

    return _validated(Experiment, _with(settings, overrides), source)


def load_suite(name_or_path: str, overrides: Sequence[str] = ()) -> Suite:
    """A bench's suite, as `load`; overrides such as `seeds=[0,1]` and `experiment.train.epochs=3`."""
    from noisyir.pipelines.suite import Suite

    return _validated(Suite, _with(_read(name_or_path, "suites"), overrides), name_or_path)


def with_seeds(suite: Suite, count: int | None) -> Suite:
    """The suite with seeds 0 to `count` - 1 instead of its own; None leaves those."""
    if count is None:
        return suite
    if count < 1:
        raise ConfigError("--seeds wants a number of seeds, at least 1")
    return suite.model_copy(update={"seeds": tuple(range(count))})


def load_refresh(settings: dict[str, Any], overrides: Sequence[str]) -> RefreshCorpusParams:
    """How a corpus is refreshed; overrides such as `data.on_empty=exclude`.  ConfigError as `load`."""
    from noisyir.pipelines.settings import RefreshCorpusParams

    return _validated(RefreshCorpusParams, _with(settings, overrides), "refresh")


def load_asking(settings: dict[str, Any], overrides: Sequence[str]) -> AskParams:
    """Whom an audit asks, from `settings` and overrides such as `ask.random=0.5`.  ConfigError as `load`."""
    from noisyir.auditing.asking.settings import AskParams

    return _validated(AskParams, _with({"ask": settings}, overrides)["ask"], "ask")


def load_runtime(overrides: Sequence[str]) -> Runtime:
    """The machine's settings from `runtime.key=value` overrides.  ConfigError as `load`.

    Under torchrun as many processes train as it began, unless an override says otherwise.
    """
    from noisyir.engine.nodes import launched
    from noisyir.engine.runtime import Runtime

    begun = launched()
    settings = _with({"runtime": {"processes": begun.size if begun else 1}}, overrides)["runtime"]
    return _validated(Runtime, settings, "runtime")


def is_runtime(override: str) -> bool:
    """Whether an override sets the machine (`runtime.threads=2`) and not the experiment."""
    return override.startswith("runtime.")


def _read(name_or_path: str, folder: str = "") -> dict[str, Any]:
    path = Path(name_or_path)
    if name_or_path in names(folder):
        text = files(__name__).joinpath(folder, f"{name_or_path}.yaml").read_text()
    elif path.suffix in (".yaml", ".yml"):
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is no file: name the .yaml file of an experiment")
        try:
            with path.open(encoding="utf-8") as handle:
                text = handle.read(SETTINGS.most + 1)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read the experiment {path}: {one_line(error)}: name a YAML file") from error
    elif path.is_file() and not folder:
        raise ConfigError(f"{path} is data and no experiment: `noisyir init {path}` writes one to run")
    else:
        what, known = (folder.removesuffix("s") or "experiment"), names(folder)
        hint = did_you_mean(name_or_path, known)
        raise ConfigError(f"no {what} {name_or_path!r}{hint}; there are {', '.join(known)}, or give a .yaml file")
    settings = parse_yaml(text, name_or_path)
    if not isinstance(settings, dict):
        raise ConfigError(f"{name_or_path} must hold settings (name: ..., data: ...), not {type(settings).__name__}")
    return {"name": path.stem, **_placed(settings, path.parent)}


def _placed(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Settings whose data is what lies beside the experiment's file under its name, where that is anything."""
    data = as_group(settings.get("data")) or {}
    moved = {
        name: str(folder / data[name])
        for name in ("path", "corpus")
        if isinstance(data.get(name), str) and (folder / data[name]).exists()
    }
    return {**settings, "data": {**data, **moved}} if moved else settings


def name_of(name_or_path: str) -> str:
    """The name of an experiment's runs: by its file, or the file of data that it was made for, or by its name."""
    path = Path(name_or_path)
    if name_or_path in names() or not path.is_file():
        return name_or_path
    return str(_read(name_or_path)["name"]) if path.suffix in (".yaml", ".yml") else path.name.split(".")[0]


def _with(settings: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    for override in overrides:
        path, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"write an override as key=value, such as train.epochs=3; got {override!r:.80}")
        _set(settings, _names_in(path, override), parse_yaml(value, f"the value of {override!r:.80}"), override)
    return settings


def _names_in(path: str, override: str) -> list[str]:
    names = path.split(".")
    if not all(names):
        raise ConfigError(f"{override!r:.80}: name a setting before the =, such as train.epochs=3")
    return names


def _validated(model: type[P], settings: dict[str, Any], source: str) -> P:
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {fault}" for fault in faults(error, model))) from error


def _set(settings: dict[str, Any], path: list[str], value: Any, override: str) -> None:
    for name in path[:-1]:
        group = as_group(settings.setdefault(name, {}))
        if group is None:
            raise ConfigError(f"{override!r:.80}: {name} is a value, not a group of settings: set {name} as a whole")
        settings[name] = settings = group
    settings[path[-1]] = value
