"""`noisyir import`: data in any format as a folder of tables with a report; no stage, and nothing in the store."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from pydantic import ValidationError

from noisyir.data.columns import PairColumn
from noisyir.data.formats import Format
from noisyir.data.formats.tables import is_import
from noisyir.data.import_report import as_json, in_words, left_out
from noisyir.data.importing import take_in
from noisyir.data.leniency import lenient
from noisyir.data.recognise import recognise
from noisyir.errors import ConfigError, DataError, StoreError

REPORT = "import.json"
_ALIASES = {"positive": "document", "passage": "document", "answer": "document"}
FORMAT_ALIASES = {
    "sentence-transformers": "sentence_transformers",
    "st": "sentence_transformers",
    "bge": "flagembedding",
}


@dataclass(frozen=True)
class Imported:
    """A finished import: where its tables are, and what was found."""

    folder: Path
    report: dict[str, Any]

    @property
    def summary(self) -> str:
        """The report, for a terminal."""
        return in_words(self.report)


def import_data(
    source: str,
    out: Path,
    *,
    kind: str | None = None,
    columns: str | None = None,
    beside: Mapping[str, str | None] | None = None,
    strict: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Read `source` and write the folder `out`, whole or not at all; an earlier import there gives way.

    kind: the format, where it is not to be recognised.  columns: "query=NAME,positive=NAME".  beside: other files by
    the settings that name them (corpus, queries, run).
    ConfigError for what cannot be set; DataError where nothing can be read, or strict and a row is left out.
    """
    if out.exists() and not (out.is_dir() and (is_import(out) or not any(out.iterdir()))):
        raise ConfigError(f"{out} holds something else: choose another --out")
    settings = settings_for(source, kind=kind, columns=columns, beside=beside or {})
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
            made = Path(folder) / "made"
            made.mkdir()
            report = _read_into(made, settings, strict=strict, progress=progress)
            if out.exists():
                shutil.rmtree(out)
            made.rename(out)
    except OSError as error:
        raise StoreError(f"cannot write to {out}, choose another --out: {error}") from error
    return Imported(out, report)


def _read_into(
    folder: Path, settings: Mapping[str, Any], *, strict: bool, progress: Callable[[int], None]
) -> dict[str, Any]:
    with lenient():  # what opening meets is met again, and counted, when the rows are read
        opened = _format(settings).open()
    found = take_in(opened, folder, progress)
    report = as_json(found, settings, getattr(opened, "columns", {}) if settings["kind"] == "pairs" else {})
    lost = left_out(found.account.files)
    if strict and lost:
        raise DataError(f"--strict: {lost:,} rows or parts of rows would be left out:\n{in_words(report)}")
    if not any(found.rows.values()):
        why = "; ".join(f"{place}: {reason}" for place, of in report["files"].items() for reason in of["left_out"])
        raise DataError(
            f"nothing in {opened.name} could be read as format {settings['kind']}: {why or 'it is empty'}: "
            "get it anew, or name another format with --format"
        )
    (folder / REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def settings_for(
    source: str, *, kind: str | None, columns: str | None, beside: Mapping[str, str | None]
) -> dict[str, Any]:
    """The settings of `data` that read `source`.  ConfigError for a format or column that there is not."""
    if kind is None and columns is None:
        return recognise(source, **beside)
    name = FORMAT_ALIASES.get(kind or "pairs", kind or "pairs")
    settings: dict[str, Any] = {"kind": name, **{key: value for key, value in beside.items() if value is not None}}
    settings |= {"id": source.partition(":")[2] or source} if name == "ir_datasets" else {"path": source}
    if columns is not None:
        settings["columns"] = _mapped(columns)
    _format(settings)
    return settings


def _format(settings: Mapping[str, Any]) -> Format:
    variant = Format.of_kind(settings["kind"])
    if unknown := [name for name in settings if name not in variant.model_fields]:
        flag = {"columns": "map"}.get(unknown[0], unknown[0])
        raise ConfigError(f"format {settings['kind']} takes no --{flag}: drop it, or name another format with --format")
    try:
        return variant.parse(dict(settings))
    except ValidationError as error:
        raise ConfigError(f"format {settings['kind']}: {error.errors()[0]['msg']}") from error


def _mapped(columns: str) -> dict[str, str | None]:
    """`query=NAME,positive=NAME` as settings; an empty NAME stands for no column."""
    found: dict[str, str | None] = {}
    for part in columns.split(","):
        what, equals, name = part.partition("=")
        column = _ALIASES.get(what.strip(), what.strip())
        if not equals or column not in get_args(PairColumn):
            known = ", ".join((*get_args(PairColumn), *_ALIASES))
            raise ConfigError(f"--map wants WHAT=COLUMN,...; {part!r} is none; WHAT is one of {known}")
        found[column] = name.strip() or None
    return found
