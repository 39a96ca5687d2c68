"""Experiments, suites and overrides that cannot be meant: texts that are no YAML, and a bad value for any setting."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from noisyir.base.settings import Params
from noisyir.base.variants import Variant
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from tests.chaos.malformed.trial import Make, Read, Trial
from tests.unit.test_strict_yaml import BOMB

_OVERRIDES, _MISSPELT = 90, 30
TEXTS: dict[str, bytes] = {
    "a bomb of aliases": BOMB.encode(),
    "an alias in itself": b"train: &x [*x]",
    "an unknown alias": b"train: *nobody",
    "a key twice": b"train: {epochs: 1}\nseed: 2\ntrain: {epochs: 3}",
    "a key twice within": b"train: {epochs: 1, epochs: 2}",
    "an octal number": b"seed: 010",
    "a binary number": b"seed: 0b11",
    "a hexadecimal number": b"seed: 0x1F",
    "minutes and seconds": b"seed: 1:30",
    "a tag of Python": b"seed: !!python/object/apply:os.system ['true']",
    "an unknown tag": b"seed: !mine 3",
    "tabs": b"train:\n\tepochs: 3",
    "an open bracket": b"methods: [dpr, npc",
    "an open quote": b'name: "demo',
    "deep": b"[" * 5000 + b"]" * 5000,
    "deep blocks": b"".join(b" " * n + b"a:\n" for n in range(400)),
    "5,000 digits": b"seed: " + b"9" * 5000,
    "400 digits": b"seed: " + b"9" * 400,
    "a number beyond floats": b"train: {learning_rate: 1.0e+999}",
    "two documents": b"seed: 1\n---\nseed: 2",
    "a list": b"- seed",
    "a word": b"demo",
    "a number": b"3",
    "a bad date": b"name: 2001-99-99",
    "a date for a name": b"name: 2001-01-01",
    "UTF-16": "seed: 1".encode("utf-16"),
    "invalid UTF-8": b"name: \xff\xfe\xfa",
    "a control character": b"name: a\x07b",
    "zeros": b"\0" * 100,
    "200 kB of keys": b"".join(b"key%d: 1\n" % n for n in range(20_000)),
    "a merge of a number": b"train:\n  <<: 3",
    "a list as a key": b"? [a, b]\n: 1",
    "no experiment's key": b"trian: {epochs: 3}",
    "a path for a name": b"name: ../../etc/passwd",
    "an empty name": b"name: ''",
    "a name of 300 letters": b"name: " + b"x" * 300,
    "an unknown method": b"methods: [npx]",
    "no method": b"methods: []",
    "a method twice": b"methods: [dpr, dpr]",
    "an unknown kind": b"data: {kind: msmarko}",
    "a list for a group": b"train: [1, 2]",
    "a kept stranger": b"keep: npc\nmethods: [dpr]",
}
_ODD = ("train.epochs", "=3", "train..epochs=3", "seed.x=3", "methods.0=dpr", "name=a/b", "name=a\0b", "train=3")
_ODD_MACHINE = ("runtime.threads=0", "runtime.threads=true", "runtime.device=", "runtime.java_heap=lots", "runtime.x=1")
_BAD: dict[str, tuple[str, ...]] = {
    "number": ("abc", "[1]", "{a: 1}", "true", ".nan", ".inf", "9" * 5000, "1:30", "010", '""'),
    "words": ("nobody_calls_it_so", "[x]", "3", "{a: 1}"),
    "switch": ("perhaps", "[x]", "7", "0.5"),
    "text": ("[x]", "{a: 1}"),
}


def trials(draw: random.Random) -> Iterator[Trial]:
    """The texts as a file, then settings that are drawn from all that an experiment has."""
    for name, text in TEXTS.items():
        yield Trial(f"experiment {name}", _file(text), "exp.yaml")
    for name, text in list(TEXTS.items())[::3]:
        yield Trial(f"suite {name}", _file(text, experiments.load_suite), "exp.yaml")
    for name, make in _NO_FILES.items():
        yield Trial(f"experiment {name}", make, "exp.yaml")
    leaves = list(_leaves(Experiment, ()))
    for number in range(_OVERRIDES):
        path, kind = draw.choice(leaves)
        value = draw.choice(_BAD[kind])
        yield Trial(
            f"override {number} {'.'.join(path)} {value:.12}", _override(f"{'.'.join(path)}={value}"), ".".join(path)
        )
    for number in range(_MISSPELT):
        path, _ = draw.choice(leaves)
        wrong = _misspelt(path[-1], draw)
        yield Trial(
            f"misspelt {number} {'.'.join([*path[:-1], wrong])}", _override(".".join([*path[:-1], wrong]) + "=1"), wrong
        )
    for text in _ODD:
        yield Trial(f"override {text!r}", _override(text), text.partition("=")[0].split(".")[0])
    for text in _ODD_MACHINE:
        yield Trial(f"override {text!r}", _runtime(text), text.partition("=")[0].removeprefix("runtime."))


def _file(text: bytes, load: Callable[..., object] = experiments.load) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        (folder / "exp.yaml").write_bytes(text)
        return lambda: load(str(folder / "exp.yaml"))

    return make


def _override(text: str) -> Make:
    return lambda folder, draw: lambda: experiments.load("demo", [text])


def _runtime(text: str) -> Make:
    return lambda folder, draw: lambda: experiments.load_runtime([text])


def _special(make: Callable[[Path], object]) -> Make:
    def made(folder: Path, draw: random.Random) -> Read:
        make(folder / "exp.yaml")
        return lambda: experiments.load(str(folder / "exp.yaml"))

    return made


_NO_FILES = {
    "a pipe": _special(os.mkfifo),
    "a folder": _special(Path.mkdir),
    "a device": _special(lambda path: path.symlink_to("/dev/zero")),
    "gone": _special(lambda path: None),
    "a link to itself": _special(lambda path: path.symlink_to(path)),
    "300 MB": _special(lambda path: path.write_bytes(b"a: 1\n" * (60 << 20))),
}


def _leaves(model: type[Params], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every setting that is one value, with what kind of value; of families the chosen variant's."""
    for name, field in model.model_fields.items():
        if name == "kind" or name in ("expected", "ar2"):
            continue
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Params):
            yield from _leaves(type(default), (*path, name))
        elif not isinstance(default, Variant) and (kind := _kind(field.annotation)):
            yield (*path, name), kind


def _kind(annotation: Any) -> str | None:
    """What values a setting takes; None for several kinds of them."""
    if get_origin(annotation) is Literal:
        return "words"
    if annotation in (int, float):
        return "number"
    if annotation is bool:
        return "switch"
    if annotation is str:
        return "text"
    inner = [one for one in get_args(annotation) if one is not type(None)]
    return _kind(inner[0]) if len(inner) == 1 and get_origin(annotation) not in (tuple, list, dict) else None


def _misspelt(name: str, draw: random.Random) -> str:
    place = draw.randrange(len(name))
    return draw.choice([name[:place] + name[place + 1 :] + "q", name + "s_", name.upper() + "_", f"x{name}"])
