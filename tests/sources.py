"""The library's own files as trees, and who imports whom: for the tests of architecture."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("noisyir", "tasks", "flows")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
# What names, lazily, things that live above it: `noisyir.audit`, and `noisyir.losses.NoisyPairLoss`.
FRONT_DOORS = {"noisyir", "noisyir.losses"}


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file's parse; not at import, for each process of the tests collects them all."""
    return {path: ast.parse(path.read_text()) for path in SOURCES}


@cache
def nodes() -> dict[Path, list[ast.AST]]:
    """Every file's nodes: a walk takes as long as ten looks at its result."""
    return {path: list(ast.walk(tree)) for path, tree in trees().items()}


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def arrows() -> dict[str, set[str]]:
    """Which modules of noisyir each one imports, also lazily and for its types."""
    modules = {module_of(path) for path in SOURCES if path.is_relative_to(ROOT / "noisyir")}
    return {
        module_of(path): {name for name in imported(found, modules) if name != module_of(path)}
        for path, found in nodes().items()
        if module_of(path) in modules - FRONT_DOORS
    }


def imported(found: list[ast.AST], modules: set[str]) -> Iterator[str]:
    """Those of `modules` that a file imports; `from folder import module` means the module."""
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield from {module if module in modules else node.module or ""} & modules
