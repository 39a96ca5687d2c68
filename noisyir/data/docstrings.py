"""Functions of Python source as (docstring, code) pairs: the construction of CodeSearchNet (Husain et al., 2019)."""

import ast
import inspect
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MIN_WORDS = 3
MIN_LINES = 3
MAX_CHARACTERS = 4000

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = _Function | ast.ClassDef


class Documented(NamedTuple):
    """A function's dotted name inside its module, its docstring's first paragraph, and its code without docstrings."""

    name: str
    paragraph: str
    code: str


def documented_functions(source: str) -> list[Documented]:
    """The functions of one module that pass the filter, in source order.  SyntaxError or ValueError if not Python.

    Kept: at least 3 words of docstring and 3 lines of code with a body, no test, no `__dunder__`, and code that does
    not repeat the paragraph.  Code is cut after 4,000 characters.
    """
    if '"""' not in source and "'''" not in source:
        return []  # parsing is what takes the time, and docstrings without triple quotes are next to none
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's invalid escapes
        tree = ast.parse(source)
    lines = source.split("\n")
    functions = ((name, scope) for name, scope in _scopes(tree.body, "") if not isinstance(scope, ast.ClassDef))
    return [found for name, function in functions if (found := _documented(name, function, lines))]


def first_paragraph(docstring: str) -> str:
    """The text before the first blank line, on one line."""
    return " ".join(re.split(r"\n[ \t]*\n", inspect.cleandoc(docstring), maxsplit=1)[0].split())


def _scopes(block: Sequence[ast.AST], prefix: str) -> Iterator[tuple[str, _Scope]]:
    """(dotted name, node) of functions and classes at any depth; expressions hold none, so they are passed over."""
    for statement in block:
        if isinstance(statement, _Scope):
            name = f"{prefix}{statement.name}"
            yield name, statement
            yield from _scopes(statement.body, f"{name}.")
            continue
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            if inner := getattr(statement, part, None):
                yield from _scopes(inner, prefix)


def _documented(name: str, function: _Function, lines: Sequence[str]) -> Documented | None:
    docstring = _docstring(function)
    if docstring is None or len(function.body) < 2 or _is_test_or_dunder(function.name):
        return None
    paragraph = first_paragraph(str(docstring.value))
    if len(paragraph.split()) < MIN_WORDS or not _is_unicode(paragraph):
        return None
    code = _code(function, lines)
    if code is None or paragraph in " ".join(code.split()):
        return None
    return Documented(name, paragraph, code[:MAX_CHARACTERS])


def _is_test_or_dunder(name: str) -> bool:
    return "test" in name.lower() or (name.startswith("__") and name.endswith("__"))


def _is_unicode(text: str) -> bool:
    """False for half a surrogate pair, which Python allows in a literal and UTF-8 does not."""
    return text.isascii() or not re.search("[\ud800-\udfff]", text)


def _docstring(scope: _Scope) -> ast.Constant | None:
    first = scope.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def _code(function: _Function, lines: Sequence[str]) -> str | None:
    """The function's lines without indentation and without any docstring, inner ones included.

    None when fewer than 3 lines are left, or when a docstring shares a line with code.
    """
    without: set[int] = set()
    for _, scope in _scopes([function], ""):
        if docstring := _docstring(scope):
            if not _stands_alone(docstring, scope, lines):
                return None
            without.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    indent = " " * function.col_offset
    numbers = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    code = [lines[number - 1].removeprefix(indent) for number in numbers if number not in without]
    code = [line for line in code if line.strip()]
    return "\n".join(code) if len(code) >= MIN_LINES else None


def _stands_alone(docstring: ast.Constant, scope: _Scope, lines: Sequence[str]) -> bool:
    before = lines[docstring.lineno - 1][: docstring.col_offset]
    follows = scope.body[1].lineno if len(scope.body) > 1 else len(lines) + 1
    return not before.strip() and follows > (docstring.end_lineno or docstring.lineno)
