"""Errors: each code that is raised has a text with the fields that it is given, and no text is without a use."""

import ast
import re
import string
from functools import cache

import pytest

from noisyir.base.errors import error_texts
from tests.sources import ROOT, nodes

ROOMS = sorted(path.parent.name for path in (ROOT / "noisyir").glob("*/errors.toml"))


@cache
def raised() -> dict[str, set[frozenset[str]]]:
    """Every code in the library, and the names of the values that come with it."""
    found: dict[str, set[frozenset[str]]] = {}
    for parts in (parts for path, parts in nodes().items() if path.is_relative_to(ROOT / "noisyir")):
        for call in (node for node in parts if isinstance(node, ast.Call) and node.args):
            code = getattr(call.args[0], "value", None)
            if (
                isinstance(code, str)
                and code.partition(".")[0] in ROOMS
                and code.partition(".")[2] in error_texts(code.partition(".")[0])
            ):
                wrapped = set()
                if getattr(call.func, "attr", "") == "wrapping":  # which offers `error` to texts that want it
                    wrapped = {"error"} & fields(error_texts(code.partition(".")[0])[code.partition(".")[2]])
                found.setdefault(code, set()).add(frozenset(str(each.arg) for each in call.keywords) | wrapped)
    return found


def fields(text: str) -> frozenset[str]:
    return frozenset(re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(text) if name)


@pytest.mark.parametrize("room", ROOMS)
def test_each_text_is_used_and_given_its_fields(room: str):
    given = raised()
    for name, text in error_texts(room).items():
        assert given.get(f"{room}.{name}"), f"{room}.{name} is raised nowhere"
        assert given[f"{room}.{name}"] == {fields(text)}, f"{room}.{name}"


def test_each_code_has_a_text():
    codes = {
        call.args[0].value
        for path, parts in nodes().items() if path.is_relative_to(ROOT / "noisyir")
        for call in parts
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str) and ast.unparse(call.func).endswith("Error")
        and re.fullmatch(r"[a-z]+\.[a-z0-9_]+", call.args[0].value)
    }  # fmt: skip
    assert len(codes) > 400 and not [code for code in codes if code not in raised()]
