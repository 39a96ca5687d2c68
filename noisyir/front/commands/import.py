"""`noisyir import`: convert data of any known format to tables for audit and run."""

from __future__ import annotations

import shlex
from typing import Annotated

from noisyir.front.commands import Json, argument, flag, option, print_count, print_json


def formats() -> list[str]:
    """Names of the available formats, for completion."""
    from noisyir.data.formats import Format

    return list(Format.variants())


def run(
    source: Annotated[str, argument("SOURCE", "a file, a folder; hf://ORG/NAME or irds:ID, which download")],
    format: Annotated[
        str | None, option("FORMAT", "its format (default: recognised by its content)", complete=formats)
    ] = None,
    map: Annotated[
        str | None, option("WHAT=COLUMN,..", "which column of a file of pairs is what: query=..,positive=..")
    ] = None,
    corpus: Annotated[str | None, option("FILE", "the documents, if SOURCE only names them")] = None,
    queries: Annotated[str | None, option("FILE", "the queries, if SOURCE only names them")] = None,
    run_file: Annotated[str | None, option("FILE", "a TREC run for qrels: its hits are negatives", "--run")] = None,
    out: Annotated[str | None, option("FOLDER", "where the tables go (default: SOURCE's name with -tables)")] = None,
    strict: Annotated[bool, flag("--strict", "fail when a row is left out")] = False,
    as_json: Json = False,
) -> int:
    """Read data in any known format, and list the kept and the left-out rows.

    example: noisyir import clicks.csv --map query=search,positive=page --out clicks
    """
    from pathlib import Path

    from noisyir.app.audit_data import named_after
    from noisyir.app.data_import import import_data

    folder = Path(out or f"{named_after(source.rstrip('/'))}-tables")
    beside = {"corpus": corpus, "queries": queries, "run": run_file}

    imported = import_data(source, folder, kind=format, columns=map, beside=beside, strict=strict, progress=print_count)
    if as_json:
        return print_json({"folder": str(folder), **imported.report})
    print(imported.summary)
    audit = f" Next: noisyir audit {shlex.quote(str(folder))}" if imported.report["pairs"].get("train") else ""
    print(f"\n{folder}/ has it as tables, and import.json says all of this.{audit}")
    given = {"--format": format, "--map": map, "--corpus": corpus, "--queries": queries, "--run": run_file}
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    print(f"Leaks, equal texts and other faults: noisyir check {shlex.join([source, *options])}")
    return 0
