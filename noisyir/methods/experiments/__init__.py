"""Experiments that ship with noisyir, one YAML file each, and how they are read; no defaults."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import ValidationError

from noisyir.base.errors import ConfigError, did_you_mean
from noisyir.base.faults import faults
from noisyir.base.settings import Params, as_group, merged
from noisyir.data.containers import SUFFIXES, stem
from noisyir.data.limits import SETTINGS, said_of

if TYPE_CHECKING:
    from noisyir.audits.model_judges.settings import AskParams
    from noisyir.engine.runtime import Runtime
    from noisyir.methods.plans.experiment import Experiment
    from noisyir.methods.plans.settings import RefreshCorpusParams
    from noisyir.methods.plans.suite import Suite

P = TypeVar("P", bound=Params)
ENDINGS = (".yaml", ".yml")
"""Endings of experiments' files; any other file is data."""
_MOST_NODES = 100_000  # nodes of a file with aliases written out: a few lines can stand for billions
_OTHER_BASES = re.compile(r"[-+]?(0[0-7_]+|0b[01_]+|0x[0-9a-fA-F_]+)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_CHECKED_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def names(folder: str = "") -> list[str]:
    """The experiments that ship with noisyir, or its `suites`."""
    inside = files(__name__).joinpath(folder) if folder else files(__name__)
    return sorted(item.name.removesuffix(".yaml") for item in inside.iterdir() if item.name.endswith(".yaml"))


def load(name_or_path: str, overrides: Sequence[str] = ()) -> Experiment:
    """An experiment by its name or path, with `key.path=value` overrides, and settings that it leaves out chosen.

    Raises:
        ConfigError: If the name, a key or a value is not valid, or the file is not YAML.
    """
    settings = _read(name_or_path)
    from noisyir.methods.plans.left_out import filled_in  # slow: a mistyped name does not need it

    return filled_in(from_settings(settings, overrides, name_or_path))


def from_settings(settings: dict[str, Any], overrides: Sequence[str], source: str = "settings") -> Experiment:
    """An experiment by `settings` and overrides."""
    from noisyir.methods.plans.experiment import Experiment

    return _validated(Experiment, _with(settings, overrides), source)


def load_suite(name_or_path: str, overrides: Sequence[str] = ()) -> Suite:
    """A suite by its name or path, with overrides such as `seeds=[0,1]` and `experiment.train.epochs=3`."""
    from noisyir.methods.plans.suite import Suite

    return _validated(Suite, _with(_read(name_or_path, "suites"), overrides), name_or_path)


def with_seeds(suite: Suite, count: int | None) -> Suite:
    """The suite with seeds 0 to `count` - 1; None keeps its own."""
    if count is None:
        return suite
    if count < 1:
        raise ConfigError("methods.bad_seed_count")
    return suite.model_copy(update={"seeds": tuple(range(count))})


def load_refresh(settings: dict[str, Any], overrides: Sequence[str]) -> RefreshCorpusParams:
    """Settings of refreshing a corpus, with overrides such as `data.on_empty=exclude`."""
    from noisyir.methods.plans.settings import RefreshCorpusParams

    return _validated(RefreshCorpusParams, _with(settings, overrides), "refresh")


def load_asking(settings: dict[str, Any], overrides: Sequence[str]) -> AskParams:
    """Settings of an audit's model judges, with overrides such as `ask.random=0.5`."""
    from noisyir.audits.model_judges.settings import AskParams

    return _validated(AskParams, _with({"ask": settings}, overrides)["ask"], "ask")


def load_runtime(overrides: Sequence[str]) -> Runtime:
    """The machine's settings from `runtime.key=value` overrides; under torchrun, its number of processes."""
    from noisyir.engine.remote.torchrun import launched
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
    elif path.suffix in ENDINGS:
        text = _text_of(path, () if folder or path.suffix != ENDINGS[0] else SUFFIXES)
    elif path.is_file() and not folder:
        raise ConfigError("methods.data_not_experiment", path=path)
    else:
        what, known = (folder.removesuffix("s") or "experiment"), names(folder)
        if here := file_here(name_or_path):
            raise ConfigError("methods.file_not_shipped", what=what, name_or_path=name_or_path, here=here)
        hint = did_you_mean(name_or_path, known) or f"; there are {', '.join(known)}"
        raise ConfigError("methods.unknown_name", what=what, name_or_path=name_or_path, hint=hint)
    settings = parse_yaml(text, name_or_path)
    if not isinstance(settings, dict):
        raise ConfigError("methods.not_settings", name_or_path=name_or_path, found=type(settings).__name__)
    return _based({"name": path.stem, **_placed(settings, path.parent)}, name_or_path, folder)


def _text_of(path: Path, data: Collection[str]) -> str:
    """The text of an experiment's file; a file of its name with an ending in `data` may be what to write it from."""
    if not path.exists():
        there = [file for end in data if (file := path.with_suffix(end)).is_file()]
        cure = f"noisyir init {shlex.quote(str(there[0]))} writes it" if there else "name a .yaml file that is there"
        raise ConfigError("methods.no_experiment_file", path=path, cure=cure)
    if not path.is_file():
        raise ConfigError("methods.not_a_file", path=path)
    unreadable = ConfigError.wrapping("methods.unreadable_experiment", OSError, ValueError, path=path)
    with unreadable, path.open(encoding="utf-8") as handle:
        return handle.read(SETTINGS.most + 1)


def _based(settings: dict[str, Any], source: str, folder: str) -> dict[str, Any]:
    """The settings over the shipped ones that `like` names."""
    if (base := settings.pop("like", None)) is None:
        return settings
    if base not in (known := names(folder)):
        hint = did_you_mean(str(base), known) or f"; there are {', '.join(known)}"
        raise ConfigError("methods.like_nothing", source=source, base=base, hint=hint)
    return merged(_read(base, folder), settings)


def _placed(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Settings with paths of data relative to the experiment's file, if they exist there."""
    data = as_group(settings.get("data")) or {}
    moved = {
        name: str(folder / data[name])
        for name in ("path", "corpus")
        if isinstance(data.get(name), str) and (folder / data[name]).exists()
    }
    return {**settings, "data": {**data, **moved}} if moved else settings


def file_here(name: str) -> str | None:
    """The file `name` with an experiment's ending, unless the name ships."""
    return next((name + end for end in ENDINGS if name not in names() and Path(name + end).is_file()), None)


def name_of(name_or_path: str) -> str:
    """The name of an experiment's runs, by its name, its file, or its file of data."""
    path = Path(name_or_path)
    if name_or_path in names() or not path.is_file():
        return name_or_path
    return str(_read(name_or_path)["name"]) if path.suffix in ENDINGS else stem(path.name)


def _with(settings: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    kinds = [override.removeprefix("data.kind=") for override in overrides if override.startswith("data.kind=")]
    if kinds and (as_group(settings.get("data")) or {}).get("kind", kinds[-1]) != kinds[-1]:
        settings["data"] = {}  # another kind has other settings
    for override in overrides:
        path, equals, value = override.partition("=")
        if not equals:
            raise ConfigError("methods.override_without_value", override=override)
        if not all(path.split(".")):
            raise ConfigError("methods.override_without_name", override=override)
        _set(settings, path.split("."), parse_yaml(value, f"the value of {override!r:.80}"), override)
    return settings


def _validated(model: type[P], settings: dict[str, Any], source: str) -> P:
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {fault}" for fault in faults(error, model))) from error


def _set(settings: dict[str, Any], path: list[str], value: Any, override: str) -> None:
    for name in path[:-1]:
        group = as_group(settings.setdefault(name, {}))
        if group is None:
            raise ConfigError("methods.override_of_value", override=override, name=name)
        settings[name] = settings = group
    settings[path[-1]] = value


def parse_yaml(text: str, source: str) -> Any:
    """The value of a YAML document; aliases are copied, so that overrides change one place alone.

    Raises:
        ConfigError: If it is not YAML, too large, or ambiguous.
    """
    if len(text) > (most := SETTINGS.most):
        raise ConfigError("methods.yaml_too_long", source=source, most=most, remedy=SETTINGS.remedy)
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _refuse_bombs(node, source)
            return loader.construct_document(_written_out(node, source))
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        said = " ".join(str(error).replace('"<unicode string>", ', "").split())
        raise ConfigError("methods.bad_yaml", source=source, fault=said) from error
    except ValueError as error:  # a tag such as !!int on another value
        raise ConfigError("methods.yaml_bad_value", source=source, fault=said_of(error)) from error
    except RecursionError as error:
        raise ConfigError("methods.yaml_too_deep", source=source) from error


def _refuse_bombs(node: yaml.Node, source: str) -> None:
    """Refuse aliases that stand for too many values, or for themselves."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(inner: yaml.Node) -> int:
        if id(inner) in open_:
            raise ConfigError("methods.yaml_alias_in_itself", place=_place(inner, source))
        if id(inner) not in sizes:
            open_.add(id(inner))
            sizes[id(inner)] = 1 + sum(map(size, _children(inner)))
            open_.discard(id(inner))
        return sizes[id(inner)]

    if (nodes := size(node)) > _MOST_NODES:
        raise ConfigError("methods.yaml_too_many_values", source=source, values=nodes, most=_MOST_NODES)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _written_out(node: yaml.Node, source: str) -> yaml.Node:
    """The document without aliases; repeated keys and ambiguous numbers are refused."""
    if isinstance(node, yaml.ScalarNode):
        _refuse_odd_value(node, source)
        return yaml.ScalarNode(node.tag, node.value, node.start_mark, node.end_mark, node.style)
    if isinstance(node, yaml.SequenceNode):
        items = [_written_out(item, source) for item in node.value]
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark)
    seen: dict[str, yaml.Node] = {}
    for key, _ in node.value:
        if (earlier := seen.setdefault(str(key.value), key)) is not key:
            line = earlier.start_mark.line + 1
            raise ConfigError("methods.yaml_repeated_key", place=_place(key, source), key=key.value, line=line)
    pairs = [(_written_out(key, source), _written_out(value, source)) for key, value in node.value]
    return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)


def _refuse_odd_value(node: yaml.ScalarNode, source: str) -> None:
    """Refuse numbers that YAML reads as others, and invalid numbers and dates."""
    if node.tag not in _CHECKED_TAGS or node.style is not None:
        return
    try:
        meant = yaml.safe_load(node.value)
    except ValueError as error:
        raise ConfigError("methods.yaml_bad_value", source=_place(node, source), fault=said_of(error)) from error
    if _OTHER_BASES.fullmatch(node.value):
        raise ConfigError("methods.yaml_ambiguous_number", place=_place(node, source), value=node.value, meant=meant)
    if _SEXAGESIMAL.fullmatch(node.value):
        raise ConfigError("methods.yaml_ambiguous_time", place=_place(node, source), value=node.value, meant=meant)


def _place(node: yaml.Node, source: str) -> str:
    return f"{source} line {node.start_mark.line + 1}"


def overrides_of(settings: Mapping[str, Any] | None) -> list[str]:
    """The settings as `KEY=VALUE` overrides; ConfigError refuses values that no file could hold."""
    found = []
    for name, value in (settings or {}).items():
        with ConfigError.wrapping("methods.unwritable_setting", TypeError, ValueError, name=name):
            found.append(f"{name}={json.dumps(value)}")
    return found
