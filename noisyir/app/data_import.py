"""`noisyir import`: convert data of any format to a folder of tables with a report; the store is not used."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from pydantic import ValidationError

from noisyir.base.errors import ConfigError, DataError, StoreError
from noisyir.data.columns import PairColumn
from noisyir.data.examples import ExampleSource
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import PairsFile
from noisyir.data.formats.tables import is_import
from noisyir.data.importing import ImportedRecords, take_in
from noisyir.data.leniency import lenient
from noisyir.data.recognise import recognise
from noisyir.data.records import Source

_REASONS = 3  # in a message
REPORT = "import.json"
_ALIASES = {"positive": "document", "passage": "document", "answer": "document"}


def as_json(found: ImportedRecords, settings: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the full report."""
    return {
        "format": settings["kind"],
        "settings": dict(settings),
        **({"columns": dict(columns)} if columns else {}),
        "files": {place: asdict(of) for place, of in found.account.files.items()},
        "tables": found.rows,
        "pairs": dict(found.splits),
        "judged": {"by nobody" if grade is None else str(grade): count for grade, count in found.judged.items()},
        "with_scores": dict(+found.scored),
        "odd": {what: asdict(tally) for what, tally in found.odd.items()},
    }


def in_words(report: Mapping[str, Any]) -> str:
    """Format the report for a terminal."""
    return "\n".join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"format        {report['format']}"
    if columns := report.get("columns"):
        yield f"columns       {', '.join(f'{name} is {what}' for what, name in columns.items())}"
    if unread := report.get("unread"):
        yield f"not read      {', '.join(unread)}: --map WHAT=COLUMN gives a column a meaning"
    for place, of in report["files"].items():
        yield from _of_file(place, of)
    yield from _of_tables(report)
    for what, tally in report["odd"].items():
        yield f"odd           {tally['count']:,} {what}{_at(tally)}"


def _of_tables(report: Mapping[str, Any]) -> Iterator[str]:
    tables = report["tables"]
    by_split = ", ".join(f"{count:,} {split}" for split, count in report["pairs"].items())
    yield (
        f"kept          {tables['documents']:,} documents, {tables['queries']:,} queries, "
        f"{tables['judgements']:,} pairs{f' ({by_split})' if by_split else ''}, {tables['negatives']:,} negatives"
    )
    judged = {grade: count for grade, count in report["judged"].items() if grade != "by nobody"}
    if said := report.get("labels"):
        wrong = sum(count for grade, count in judged.items() if int(grade) <= 0)
        yield f"labels        {said}; {wrong:,} pairs left out of training, kept as judgements"
    if judged:
        yield f"judged        {', '.join(f'{count:,} as {grade}' for grade, count in sorted(judged.items()))}"
    for name, count in report["with_scores"].items():
        yield f"scores        {count:,} {'pairs' if name == 'judgements' else name} have one"


def _of_file(place: str, of: Mapping[str, Any]) -> Iterator[str]:
    file, _, unit = place.rpartition(" ")
    repeated, left_out = of["repeated"], of["left_out"]
    lost = sum(tally["count"] for tally in left_out.values())
    yield (
        f"read          {of['read']:,} {unit}s of {file}: {of['kept']:,} kept, {repeated['count']:,} repeat an earlier "
        f"one, {lost:,} left out"
    )
    if repeated["count"]:
        yield f"  repeated    {repeated['count']:,}{_at(repeated, unit)}"
    for reason, tally in left_out.items():
        yield f"  left out    {tally['count']:,}: {reason}{_at(tally, unit)}{_whole(tally)}"
    for reason, tally in of["parts_left_out"].items():
        kept = f"{tally['count']:,} rows were kept without a part"
        yield f"  in part     {kept}: {reason}{_at(tally, unit)}{_whole(tally)}"


def _whole(tally: Mapping[str, Any]) -> str:
    return f"\n    in whole  {tally['said']}" if tally["said"] else ""


def _at(tally: Mapping[str, Any], unit: str = "number") -> str:
    first = ", ".join(f"{number:,}" for number in tally["first"])
    more = ", ..." if tally["count"] > len(tally["first"]) else ""
    return f" ({unit} {first}{more})"


@dataclass(frozen=True)
class Imported:
    """A finished import: the tables' folder and the report."""

    folder: Path
    report: dict[str, Any]

    @property
    def summary(self) -> str:
        """The report for a terminal."""
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
    """Read `source` and write the folder `out` completely or not at all, replacing an earlier import.

    Args:
        kind: Format; None detects it.
        columns: "query=NAME,positive=NAME".
        beside: Related files by setting name (corpus, queries, run).

    Raises:
        ConfigError: If an argument is invalid.
        DataError: If nothing can be read, or `strict` is set and a row is left out.
    """
    if out.exists() and not (out.is_dir() and (is_import(out) or not any(out.iterdir()))):
        raise ConfigError("app.not_an_import", out=out)
    settings = settings_for(source, kind=kind, columns=columns, beside=beside or {})
    with StoreError.wrapping("app.cannot_write_out", out=out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
            made = Path(folder) / "made"
            made.mkdir()
            report = _read_into(made, settings, strict=strict, progress=progress)
            if out.exists():
                shutil.rmtree(out)
            made.rename(out)
    return Imported(out, report)


def _read_into(
    folder: Path, settings: Mapping[str, Any], *, strict: bool, progress: Callable[[int], None]
) -> dict[str, Any]:
    source = opened(settings)
    found = take_in(source, folder, progress)
    columns: Mapping[Any, Any] = source.columns if isinstance(source, PairsFile) else {}
    report = as_json(found, settings, columns)
    report |= {"labels": source.labels.said} if isinstance(source, ExampleSource) and source.labels else {}
    report |= {"unread": source.unread} if isinstance(source, PairsFile) and source.unread else {}
    files = found.account.files.values()
    lost = sum(of.lost + sum(tally.count for tally in of.parts_left_out.values()) for of in files)
    if strict and lost:
        raise DataError("app.strict_loss", lost=lost, in_words=in_words(report))
    kept = found.rows if not Format.of_kind(settings["kind"]).holds_pairs else {"pairs": found.rows["judgements"]}
    if not any(kept.values()):
        raise DataError("app.no_pair_read", source=source.name, kind=settings["kind"], why=_why(report["files"]))
    (folder / REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def _why(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Why rows were left out, the commonest reason first."""
    reasons = [
        (tally["count"], tally["said"] or f"{place} {tally['first'][0]}: {reason}")
        for place, of in files.items()
        for reason, tally in [*of["left_out"].items(), *of["parts_left_out"].items()]
    ]
    told = [f"{count:,} x {reason}" for count, reason in sorted(reasons, key=lambda one: -one[0])]
    return "; ".join(told[:_REASONS]) or "it has none"


def opened(settings: Mapping[str, Any]) -> Source:
    """Open the source that these settings of `data` describe."""
    with lenient():  # faults met on opening recur, and are counted, on reading
        return _format(settings).open()


def settings_for(
    source: str, *, kind: str | None, columns: str | None, beside: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the settings of `data` that read `source`."""
    mapped = {} if columns is None else _mapped(columns)
    if kind is None and mapped.keys() <= {"label"}:
        settings = recognise(source, **beside)
    else:
        name = (kind or "pairs").replace("-", "_")
        settings = {"kind": name, **{key: value for key, value in beside.items() if value is not None}}
        settings |= {"id": source.partition(":")[2] or source} if name == "ir_datasets" else {"path": source}
    settings |= {"columns": mapped} if mapped else {}
    _format(settings)
    return settings


def _format(settings: Mapping[str, Any]) -> Format:
    variant = Format.of_kind(settings["kind"])
    if unknown := [name for name in settings if name not in variant.model_fields]:
        flag = {"columns": "map"}.get(unknown[0], unknown[0])
        raise ConfigError("app.unknown_format_option", kind=settings["kind"], flag=flag)
    try:
        return variant.parse(dict(settings))
    except ValidationError as error:
        raise ConfigError("app.bad_format_setting", kind=settings["kind"], msg=error.errors()[0]["msg"]) from error


def _mapped(columns: str) -> dict[str, str | None]:
    """Parse `query=NAME,positive=NAME`; an empty NAME, or null, means no column."""
    found: dict[str, str | None] = {}
    for part in re.split(r",(?=\s*\w+\s*=)", columns):
        what, equals, name = part.partition("=")
        column = _ALIASES.get(what.strip(), what.strip())
        if not equals or column not in get_args(PairColumn):
            known = ", ".join((*get_args(PairColumn), *_ALIASES))
            raise ConfigError("app.bad_map", part=part, known=known)
        found[column] = None if name.strip() in ("", "null") else name.strip()
    return found
