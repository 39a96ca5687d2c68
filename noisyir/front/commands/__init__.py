"""Verbs of the command line, one file each; they only call other layers.

A verb's function `run` declares its arguments and returns the exit code; its docstring is the verb's help and ends
with an example. `noisyir --help` and completion load all of these files, so slow imports belong inside functions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from noisyir.base.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from noisyir.engine.store import Store


NOT_PASSED = 3  # exit code if data fails a gate: --fail-over, --fail-on
Complete: TypeAlias = Callable[[], list[str]]
_MODEL = "an experiment's name, a build's key, or models:/NAME@ALIAS"


def argument(metavar: str, about: str, complete: Complete | None = None) -> Any:
    """Declare an argument: its placeholder, its help, and an optional completion."""
    return typer.Argument(metavar=metavar, help=about, autocompletion=complete)


def option(metavar: str, about: str, *names: str, complete: Complete | None = None) -> Any:
    """Declare an option with a value, as for `argument`; the name defaults to the parameter's."""
    return typer.Option(*names, metavar=metavar, help=about, autocompletion=complete)


def flag(name: str, about: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, help=about)


def file_size(count: int) -> str:
    """Format a number of bytes, such as `1.5 MB`."""
    from rich.filesize import decimal

    return decimal(count)


def experiment_names() -> list[str]:
    """Names of the shipped experiments, for completion; avoids loading the experiment parser."""
    return _yaml_names("methods/experiments")


def suite_names() -> list[str]:
    """Names of the bench suites, for completion."""
    return _yaml_names("methods/experiments/suites")


def _yaml_names(folder: str) -> list[str]:
    return sorted(path.stem for path in (Path(__file__).parents[2] / folder).glob("*.yaml"))


def written_formats() -> list[str]:
    """Formats that pairs can be written in, for completion."""
    from noisyir.data.formats import Format

    return [name for name, variant in Format.variants().items() if variant.written is not None]


Model: TypeAlias = Annotated[str, argument("MODEL", _MODEL, experiment_names)]
StoreUrl: TypeAlias = Annotated[
    str | None, option("URL", "folder or URL of artifacts ($NOISYIR_STORE, $NOISYIR_HOME/store)", "--store")
]
CorpusFile: TypeAlias = Annotated[
    str | None, option("FILE", "the documents, if a file of pairs only names them", "--corpus")
]
ColumnSettings: TypeAlias = Annotated[
    list[str] | None, argument("KEY=VALUE", "settings of the file's columns, such as 'data.columns={weight: null}'")
]
QueryColumn: TypeAlias = Annotated[str | None, option("COL", "the file's column of queries", "--query")]
DocumentColumn: TypeAlias = Annotated[str | None, option("COL", "the file's column of documents", "--document")]
Json: TypeAlias = Annotated[bool, flag("--json", "print one JSON object on stdout, and only that")]
Verbose: TypeAlias = Annotated[bool, typer.Option("-v", "--verbose", help="show stages, times and places, too")]
Engine: TypeAlias = Annotated[Literal["local", "prefect"], option("local|prefect", "who calls the stages")]
Refresh: TypeAlias = Annotated[list[str] | None, option("STAGE", "rebuild it (repeatable)")]


def print_count(count: int) -> None:
    """Show the records read so far, over the number before, if someone watches."""
    if sys.stderr.isatty():
        print(f"\r{count:,} records", end="\r", file=sys.stderr, flush=True)


def print_json(value: object) -> int:
    """Print one JSON object; returns exit code 0."""
    print(json.dumps(value, indent=2, default=str))
    return 0


def open_store(url: str | None) -> Store:
    """Open the store named on the command line, or the one in noisyir's home."""
    from noisyir.engine import store

    return store.open_store(url)


def split_settings(overrides: list[str] | None) -> tuple[list[str], list[str]]:
    """Split KEY=VALUE arguments into experiment and machine settings."""
    from noisyir.methods.experiments import is_runtime

    given = overrides or []
    return [text for text in given if not is_runtime(text)], [text for text in given if is_runtime(text)]


def with_columns(overrides: list[str] | None, query: str | None, document: str | None) -> list[str]:
    """Return the settings, extended by --query and --document."""
    named = {"query": query, "document": document}
    quoted = {at: json.dumps(name, ensure_ascii=False) for at, name in named.items() if name}
    return [*(overrides or []), *(f"data.columns.{at}={name}" for at, name in quoted.items())]


def prefect_engine(flow: str) -> Any:
    """Import a flow's module by name, because the library does not depend on the orchestrator."""
    try:
        return import_module(f"noisyir.flows.{flow}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "front.prefect_missing", error=error.name, install_hint=install_hint("orchestrate")
        ) from error
