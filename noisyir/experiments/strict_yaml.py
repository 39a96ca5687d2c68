"""YAML that means what it seems to: no key twice, no numbers of YAML 1.1 that look like others, aliases as copies."""

import re
from typing import Any

import yaml

from noisyir.data.limits import SETTINGS, said_of
from noisyir.errors import ConfigError

_MOST_NODES = 100_000  # of a file, aliases written out: a few lines can stand for billions
_OTHER_BASES = re.compile(r"[-+]?(0[0-7_]+|0b[01_]+|0x[0-9a-fA-F_]+)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_READ = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def parse_yaml(text: str, source: str) -> Any:
    """The value of a YAML document; ConfigError, with place and remedy, for what is none or is ambiguous.

    What an alias names is a copy, so that to change one of two places changes that one alone.
    """
    if len(text) > (most := SETTINGS.most):
        raise ConfigError(
            f"{source}: more than {most:,} characters: is it a file of settings? If so, {SETTINGS.remedy}"
        )
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
        raise ConfigError(f"{source} is not YAML, mend it: {said}") from error
    except ValueError as error:  # what a tag such as !!int calls a number and is none
        raise ConfigError(f"{source}: {said_of(error)}: write another, or put it in quotes") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: nested too deeply: write less within less") from error


def _refuse_bombs(node: yaml.Node, source: str) -> None:
    """ConfigError where aliases stand for more than a file of settings can hold, or for themselves."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(inner: yaml.Node) -> int:
        if id(inner) in open_:
            raise ConfigError(f"{_place(inner, source)}: an alias stands inside what it names: write it out")
        if id(inner) not in sizes:
            open_.add(id(inner))
            sizes[id(inner)] = 1 + sum(map(size, _children(inner)))
            open_.discard(id(inner))
        return sizes[id(inner)]

    if (nodes := size(node)) > _MOST_NODES:
        raise ConfigError(f"{source}: its aliases stand for {nodes:,} values, more than {_MOST_NODES:,}: write less")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _written_out(node: yaml.Node, source: str) -> yaml.Node:
    """The same document without aliases.  ConfigError for a key that stands twice, and for odd numbers."""
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
            raise ConfigError(
                f"{_place(key, source)}: {key.value!r} stands at line {line} already: keep one of the two"
            )
    pairs = [(_written_out(key, source), _written_out(value, source)) for key, value in node.value]
    return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)


def _refuse_odd_value(node: yaml.ScalarNode, source: str) -> None:
    """ConfigError for a number that YAML takes for another, and for a number or date that is none."""
    if node.tag not in _READ or node.style is not None:
        return
    try:
        meant = yaml.safe_load(node.value)
    except ValueError as error:
        raise ConfigError(f"{_place(node, source)}: {said_of(error)}: write another, or put it in quotes") from error
    if _OTHER_BASES.fullmatch(node.value):
        raise ConfigError(
            f'{_place(node, source)}: {node.value} is {meant} to YAML: write that, or, for text, "{node.value}"'
        )
    if _SEXAGESIMAL.fullmatch(node.value):
        raise ConfigError(
            f"{_place(node, source)}: YAML reads {node.value} as minutes and seconds, {meant}: "
            f'write that, or, for text, "{node.value}"'
        )


def _place(node: yaml.Node, source: str) -> str:
    return f"{source} line {node.start_mark.line + 1}"
