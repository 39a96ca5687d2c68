"""The format of a file or folder, by its contents; only its first rows are read."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from noisyir.base.command_line import typed_words
from noisyir.base.errors import DataError
from noisyir.data.columns import NAMES, choose_columns, found_in
from noisyir.data.containers.split_folder import is_split_folder
from noisyir.data.formats import Format
from noisyir.data.formats.line_pairs import partner
from noisyir.data.formats.stack_overflow import so_ds_files
from noisyir.data.formats.tables import is_import
from noisyir.data.formats.trec import trec_role
from noisyir.data.formats.triples import array_in
from noisyir.data.leniency import lenient
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import first_bytes, one_of, utf8_lines
from noisyir.engine.hub import downloaded, is_on_hub

IR_DATASETS = ("ir_datasets:", "irds:")
# Files by which a folder is recognised: one of each group must exist
_FOLDERS = {
    "beir": ("corpus.jsonl",),
    "squad": ("train-v1.1.json", "dev-v1.1.json"),
    "msmarco": ("collection.tsv", "msmarco-docs.tsv", "para.txt"),
    "dpr": tuple(f"{folder}psgs_w100.tsv" for folder in ("", "wikipedia_split/", "downloads/data/wikipedia_split/")),
}
_TREC = ("qrels.txt", "topics.tsv", "corpus.tsv")
_SQUAD = re.compile(rb'"(paragraphs|data)"\s*:\s*\[')
_LITERAL = re.compile(r"^\[.*\]$")


def recognise(source: str, **given: str | None) -> dict[str, Any]:
    """Settings of `data` that read `source`: kind, path and, if the format takes them, the other files.

    Args:
        source: A file, a folder, ir_datasets:ID (or irds:ID), or hf://ORG/NAME; the last two are downloaded.
        given: Files by the names of settings: corpus, queries, run.

    Raises:
        DataError: If the format is unclear; the message says what to type.
    """
    if source.startswith(IR_DATASETS):
        return {"kind": "ir_datasets", "id": source.partition(":")[2]}
    path = Path(downloaded(source) if is_on_hub(source) else source)
    if not path.exists():
        raise DataError("data.no_such_source", source=source)
    files = {name: file for name, file in given.items() if file is not None}
    with lenient():  # a faulty row among the first says nothing of the format
        found = _folder(path) if path.is_dir() else _file(path, files)
    settings = {**found, **files}
    known = Format.of_kind(settings["kind"]).model_fields
    if unread := [name for name in files if name not in known]:
        raise DataError(
            "data.unread_setting", source=source, kind=settings["kind"], setting=unread[0], quote=shlex.quote(source)
        )
    return settings


def _folder(path: Path) -> dict[str, Any]:
    if is_import(path):
        return {"kind": "tables", "path": str(path)}
    for kind, names in _FOLDERS.items():
        if one_of_any(path, names):
            return {"kind": kind, "path": str(path)}
    if all((path / name).is_file() for name in _TREC):
        run = {"run": str(path / "run.txt")} if (path / "run.txt").is_file() else {}
        qrels, queries, corpus = (str(path / name) for name in _TREC)
        return {"kind": "trec", "path": qrels, "queries": queries, "corpus": corpus, **run}
    if is_split_folder(path) and (found := _of_rows(RowFile.open(str(path), "data.path"))):
        return found
    if so_ds_files(path):
        return {"kind": "so_ds", "path": str(path)}
    if len(pairs := [(file, other) for file in path.iterdir() if (other := partner(file))]) == 1:
        return {"kind": "line_pairs", "path": str(pairs[0][0]), "corpus": str(pairs[0][1])}
    raise DataError("data.unknown_folder_format", path=path)


def one_of_any(root: Path, names: tuple[str, ...]) -> Path | None:
    """The first of these files that exists, perhaps packed."""
    return next((found for name in names if (found := one_of(root, [name]))), None)


def _file(path: Path, files: Mapping[str, str]) -> dict[str, Any]:
    if other := partner(path):
        return {"kind": "line_pairs", "path": str(path), "corpus": str(other)}
    if _is_squad(path):
        return {"kind": "squad", "path": str(path)}
    rows, why = None, ""
    if not path.stat().st_size:
        raise DataError("data.empty_pairs_file", path=path)
    try:
        rows = RowFile.open(str(path), "data.path")
    except DataError as error:
        why = f" ({error})"
    if rows is not None and (found := _of_rows(rows)):
        return found
    if kind := _headerless(path):
        return {"kind": kind, "path": str(path)}
    if rows is not None:
        raise DataError("data.unclear_columns", path=path, unclear=_unclear(rows))
    raise DataError(
        "data.unknown_format",
        path=path,
        reason=why,
        quote=shlex.quote(str(path)),
        variants=", ".join(Format.variants()),
    )


def _of_rows(rows: RowFile) -> dict[str, Any] | None:
    """The format of rows with named columns, by the first of them, or by the names of the columns."""
    first = next((row for _, row in rows.rows(rows.columns)), {})
    path = str(rows.path)
    for kind, variant in Format.variants().items():
        if variant.fits(first):
            return {"kind": kind, "path": path}
    chosen = choose_columns(rows, {}, NAMES)
    return {"kind": "pairs", "path": path} if "query" in chosen and chosen.keys() & {"document", "doc_id"} else None


def _unclear(rows: RowFile) -> str:
    """Why columns are no pair, and the remedy."""
    if len(rows.columns) == 1:
        return f"has only one column, {rows.columns[0]}: a pair needs a query and a document"
    return f"does not tell the columns of query and document apart; {found_in(rows)}: {_mapping(rows)}"


def _mapping(rows: RowFile) -> str:
    """The command that was typed with columns added; the longest text of the first row is taken for the document."""
    first = next((row for _, row in rows.rows(rows.columns)), {})
    texts = [name for name, value in first.items() if isinstance(value, str) and value.strip()]
    chosen = sorted(texts, key=lambda name: (len(first[name]), texts.index(name)), reverse=True)[:2]
    if len(chosen) < 2:
        return "a pair needs a column of queries and one of documents, so add the missing one"
    document, query = chosen
    words, columns = typed_words.get(), f"query={query},positive={document}"
    if not words:
        return (
            f"if {query!r} is the query, set data.columns={{query: {_as_yaml(query)}, document: {_as_yaml(document)}}}"
        )
    if words[0] in ("audit", "init", "mine"):
        typed, then = [*words, "--query", query, "--document", document], ""
    elif any("," in name or name != name.strip() for name in chosen):
        return "call them query and document in the file's first row"
    elif words[0] in ("import", "check"):
        typed, then = [*words, "--map", columns], ""
    else:
        typed, then = ["import", str(rows.path), "--map", columns], ", and go on with the folder that it writes"
    return f"if {query!r} is the query, type {shlex.join(['noisyir', *typed])}{then}"


def _as_yaml(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z]\w+", name) and yaml.safe_load(name) == name else json.dumps(name)


def _is_squad(path: Path) -> bool:
    if ".json" not in path.name.lower():
        return False
    first = first_bytes(path)
    return b'"paragraphs"' in first and b'"qas"' in first and bool(_SQUAD.search(first))


def _headerless(path: Path) -> str | None:
    """The format of lines without named columns."""
    lines = [line for _, line in zip(range(20), (text for _, text in utf8_lines(path) if text.strip()), strict=False)]
    if not lines:
        return None
    if lines[0].lstrip().lower().startswith("<top"):
        return "topics"
    if trec_role(path):
        return "trec"
    cells = [line.split("\t") for line in lines]
    if all(array_in(line) for line in lines):
        return "triples"
    if all(len(row) == 3 for row in cells):
        return "triples"
    if all(len(row) == 2 and _LITERAL.match(row[1]) for row in cells):
        return "topics"
    if all(len(row) == 2 and row[0].isdecimal() for row in cells):
        raise DataError("data.queries_or_documents", path=path, quote=shlex.quote(str(path)))
    return None
