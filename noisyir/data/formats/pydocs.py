"""The built-in data set: docstrings as queries, functions as documents, mined from the installed Python."""

import ast
import gc
import inspect
import re
import sysconfig
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, NonNegativeInt

from noisyir.base.errors import DataError
from noisyir.base.settings import Split
from noisyir.data.formats import Format
from noisyir.data.records import Document, Judgement, Query, Record
from noisyir.engine.provenance import package_versions

# Distributions that noisyir's own extras install, in the order of their documents, with the package to mine.
# transformers is left out: most of its functions are copies between model files, that is, unlabelled positives.
PACKAGES = {
    "huggingface-hub": "huggingface_hub",
    "matplotlib": "matplotlib",
    "mlflow": "mlflow",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "prefect": "prefect",
    "pyarrow": "pyarrow",
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "sentence-transformers": "sentence_transformers",
    "sqlalchemy": "sqlalchemy",
    "sympy": "sympy",
    "torch": "torch",
}
_NOT_MINED = {"site-packages", "dist-packages", "idlelib", "lib2to3", "turtledemo", "__pycache__"}
_TESTS = re.compile(r"(^|_)(tests?|testing|conftest)(_|$)")
_FILES_AT_ONCE = 64
Module = tuple[str, Path]  # dotted name, source file
MIN_WORDS = 3
MIN_LINES = 3
MAX_CHARACTERS = 4000
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = _Function | ast.ClassDef


class Documented(NamedTuple):
    """A function's dotted name in its module, its docstring's first paragraph, and its code without docstrings."""

    name: str
    paragraph: str
    code: str


Functions = list[Documented] | None


class Pydocs(Format, kind="pydocs"):
    """The installed Python: docstrings as queries, functions as documents."""

    dev_queries: NonNegativeInt = Field(1000, description="queries held out to choose by")
    test_queries: NonNegativeInt = Field(2000, description="queries held out to report on")

    def open(self, workers: int | None = None) -> "PythonDocs":
        """The installed Python."""
        return PythonDocs(self.dev_queries, self.test_queries, self.max_documents, workers)


@dataclass(frozen=True)
class MinedDocstrings:
    """Distinct codes with the name of their first function, and the pairs of paragraphs and codes."""

    doc_ids: dict[str, str]  # code -> doc_id
    positives: dict[str, list[str]]  # paragraph -> doc_ids
    facts: dict[str, Any]


@dataclass(frozen=True)
class PythonDocs:
    """Distinct first paragraphs are queries; every function with the paragraph is relevant to it.

    A query's id is a hash of its text, and the smallest ids are held out: the split depends on nothing else.
    """

    dev_queries: int
    test_queries: int
    max_documents: int | None
    workers: int | None
    name: str = "pydocs"

    def digest(self) -> str:
        """A hash of the versions of Python and its packages: the code itself is not read."""
        found = "\n".join(f"{name}=={number}" for name, number in package_versions(tuple(PACKAGES)).items())
        return sha256(found.encode()).hexdigest()

    def documents(self) -> Iterator[Document]:
        """Distinct codes, in the order of packages, files and lines."""
        for number, (code, doc_id) in enumerate(self._mined.doc_ids.items(), 1):
            yield Document(doc_id, "", code, "pydocs function", number)

    def queries(self) -> Iterator[Query]:
        """Distinct first paragraphs."""
        for number, paragraph in enumerate(self._mined.positives, 1):
            yield Query(query_id(paragraph), paragraph, (), "pydocs docstring", number)

    def judgements(self) -> Iterator[Judgement]:
        """Each paragraph with its functions, as relevant; the source is the function's package."""
        splits = hold_out(self._mined.positives, dev=self.dev_queries, test=self.test_queries)
        pairs = ((paragraph, doc_id) for paragraph, doc_ids in self._mined.positives.items() for doc_id in doc_ids)
        for number, (paragraph, doc_id) in enumerate(pairs, 1):
            split = splits.get(paragraph, "train")
            yield Judgement(query_id(paragraph), doc_id, 1, split, package_of(doc_id), "pydocs docstring", number)

    def records(self) -> Iterator[Record]:
        """Documents, then queries, then judgements."""
        return chain(self.documents(), self.queries(), self.judgements())

    def facts(self) -> dict[str, Any]:
        """Packages mined and missing, files read and unreadable, and paragraphs of several functions."""
        return self._mined.facts

    @cached_property
    def _mined(self) -> MinedDocstrings:
        modules = _modules()
        return collect(_mine(modules, self.workers, lazily=self.max_documents is not None), self.max_documents)


def query_id(paragraph: str) -> str:
    """16 hex digits that depend on the text alone."""
    return sha256(paragraph.encode()).hexdigest()[:16]


def package_of(doc_id: str) -> str:
    """The top package of a document's module, `stdlib` for the standard library."""
    top = doc_id.partition(":")[0].partition(".")[0]
    return top if top in PACKAGES.values() else "stdlib"


def hold_out(positives: dict[str, list[str]], *, dev: int, test: int) -> dict[str, Split]:
    """The split of each held-out query: the `test` smallest ids, then the next `dev`.

    Only queries with documents of their own can be held out, so that none is a training positive.
    Less than half of the queries to train on is a DataError.
    """
    askers = Counter(doc_id for doc_ids in positives.values() for doc_id in doc_ids)
    alone = [text for text, doc_ids in positives.items() if all(askers[doc_id] == 1 for doc_id in doc_ids)]
    if dev + test > len(positives) // 2 or dev + test > len(alone):
        raise DataError("data.too_few_docstrings", n_queries=len(positives), dev=dev, test=test)
    order = sorted(alone, key=query_id)
    return {text: "test" if rank < test else "dev" for rank, text in enumerate(order[: dev + test])}


def collect(modules: Iterable[tuple[str, Functions]], max_documents: int | None) -> MinedDocstrings:
    """Join the functions of (module name, functions or None if unreadable), up to `max_documents` codes.

    Equal codes are one document, named `module:function` after the first, with `#2`, `#3`, ... if a name recurs.
    """
    doc_ids: dict[str, str] = {}
    positives: dict[str, dict[str, None]] = defaultdict(dict)
    names: Counter[str] = Counter()
    unreadable: list[str] = []
    read = 0
    for module, functions in modules:
        read += 1
        if functions is None:
            unreadable.append(module)
        for name, paragraph, code in functions or ():
            if code not in doc_ids:
                if len(doc_ids) == max_documents:
                    return _mined(doc_ids, positives, read, unreadable)
                names[f"{module}:{name}"] += 1
                count = names[f"{module}:{name}"]
                doc_ids[code] = f"{module}:{name}" + (f"#{count}" if count > 1 else "")
            positives[paragraph][doc_ids[code]] = None
    return _mined(doc_ids, positives, read, unreadable)


def _mined(
    doc_ids: dict[str, str], positives: dict[str, dict[str, None]], modules: int, unreadable: list[str]
) -> MinedDocstrings:
    shared = sum(len(found) > 1 for found in positives.values())
    versions = package_versions(tuple(PACKAGES))
    facts = {
        "mined": versions,
        "packages_missing": [name for name in PACKAGES if name not in versions],
        "modules": modules,
        "modules_unreadable": unreadable,
        "queries_with_several_documents": shared,
    }
    return MinedDocstrings(doc_ids, {paragraph: list(found) for paragraph, found in positives.items()}, facts)


def _modules() -> list[Module]:
    """The source files of the standard library and every package found, in a fixed order."""
    found = list(_modules_in(Path(sysconfig.get_path("stdlib")), ""))
    for distribution in package_versions(tuple(PACKAGES)):
        spec = find_spec(PACKAGES[distribution]) if distribution in PACKAGES else None
        for folder in (spec and spec.submodule_search_locations) or ():
            found += _modules_in(Path(folder), f"{PACKAGES[distribution]}.")
    return found


def _modules_in(folder: Path, prefix: str) -> Iterator[Module]:
    for path in sorted(folder.iterdir()):
        if path.name in _NOT_MINED or _TESTS.search(path.stem):
            continue
        if path.suffix == ".py":
            yield prefix.removesuffix(".") if path.stem == "__init__" else f"{prefix}{path.stem}", path
        elif path.is_dir():
            yield from _modules_in(path, f"{prefix}{path.name}.")


def _mine(modules: Sequence[Module], workers: int | None, *, lazily: bool) -> Iterator[tuple[str, Functions]]:
    """The functions of every module, in order: one module at a time if `lazily`, else by all workers."""
    chunks = [modules[start : start + _FILES_AT_ONCE] for start in range(0, len(modules), _FILES_AT_ONCE)]
    if lazily:
        results = map(mine_modules, chunks)
    else:
        from joblib import Parallel, delayed
        from joblib.externals.loky import get_reusable_executor

        results = Parallel(n_jobs=workers or -1)(delayed(mine_modules)(chunk) for chunk in chunks)
        get_reusable_executor().shutdown()  # its workers would keep their memory for five minutes
    return chain.from_iterable(results)


def mine_modules(modules: Sequence[Module]) -> list[tuple[str, Functions]]:
    """(module name, documented functions) in order; None if the file is not UTF-8 or not valid Python."""
    collecting = gc.isenabled()
    gc.disable()  # syntax trees hold no cycles, and looking for some doubles the time
    try:
        return [(name, _functions(path)) for name, path in modules]
    finally:
        if collecting:
            gc.enable()


def _functions(path: Path) -> Functions:
    try:
        return documented_functions(path.read_text(encoding="utf-8-sig"))
    except (SyntaxError, ValueError, RecursionError):
        return None


def documented_functions(source: str) -> list[Documented]:
    """The functions of one module that pass the filter, in source order.

    Kept are functions with at least 3 words of docstring and 3 lines of code, but no tests, no `__dunder__`, and no
    code that repeats the paragraph.  Code is cut after 4,000 characters.
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
    """(dotted name, node) of functions and classes at any depth; expressions hold none."""
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
    # half a surrogate pair is allowed in a literal, and not in UTF-8
    if len(paragraph.split()) < MIN_WORDS or re.search("[\ud800-\udfff]", paragraph):
        return None
    code = _code(function, lines)
    if code is None or paragraph in " ".join(code.split()):
        return None
    return Documented(name, paragraph, code[:MAX_CHARACTERS])


def _is_test_or_dunder(name: str) -> bool:
    return "test" in name.lower() or (name.startswith("__") and name.endswith("__"))


def _docstring(scope: _Scope) -> ast.Constant | None:
    first = scope.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def _code(function: _Function, lines: Sequence[str]) -> str | None:
    """The function's lines without indentation and docstrings, inner ones included.

    None if fewer than 3 lines are left, or a docstring shares a line with code.
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
