"""The format of a file or folder, by its contents; only its first rows are read."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from noisyir.base.command_line import WITH_COLUMNS, typed_words, with_columns
from noisyir.base.errors import DataError
from noisyir.data.columns import NAMES, choose_columns, found_in
from noisyir.data.containers import FLAT
from noisyir.data.containers.split_folder import is_split_folder, split_named
from noisyir.data.formats import Format
from noisyir.data.formats.beir import is_in_parquet
from noisyir.data.formats.line_pairs import partner
from noisyir.data.formats.stack_overflow import so_ds_files
from noisyir.data.formats.tables import is_import
from noisyir.data.formats.trec import trec_role
from noisyir.data.formats.triples import array_in
from noisyir.data.labels import CHOICES, MEANINGFUL, is_judgement
from noisyir.data.leniency import lenient
from noisyir.data.row_files import RowFile, known_words, plain_name
from noisyir.data.shapes import TEXTS, are_texts
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
_OF_HEADER = ("data.nameless_columns", "data.column_name_twice", "data.not_utf8_line", "data.zero_bytes",
              "data.invalid_json", "data.json_comma_before_end", "data.equal_sheets", "data.unread_list",
              "data.merged_cells", "data.hidden", "data.bare_returns")  # fmt: skip
_NO_NAME = re.compile(r"\s*|.*\S\s.*[?!.]\s*|.{41,}|(\S+\s+){4,}.*|[\d.,]+", re.DOTALL)  # rather a text or a title
_NAME = re.compile(r"[\w.-]{1,40}")
_PARTS = known_words("parts")
_ASKS, _REPLIES = (re.compile("|".join(_PARTS[what]), re.IGNORECASE) for what in ("asks", "replies"))
_WRONG = re.compile(f"(^|[^a-z])({'|'.join(_PARTS['wrong'])})")  # in plain names, as the next
_NO_TEXT = re.compile(f"(.*_)?({'|'.join(_PARTS['no_text'])})")
_LITERAL = re.compile(r"^\[.*\]$")
_LONG_LABEL = 30  # signs; a label is shorter


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
        kind, quote = settings["kind"], shlex.quote(source)
        raise DataError("data.unread_setting", source=source, kind=kind, setting=unread[0], quote=quote)
    return settings


def _folder(path: Path) -> dict[str, Any]:
    if is_import(path):
        return {"kind": "tables", "path": str(path)}
    for kind, names in _FOLDERS.items():
        if any(one_of(path, [name]) for name in names) or (kind == "beir" and is_in_parquet(path)):
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


def _file(path: Path, files: Mapping[str, str]) -> dict[str, Any]:
    if other := partner(path):
        return {"kind": "line_pairs", "path": str(path), "corpus": str(other)}
    if _is_squad(path):
        return {"kind": "squad", "path": str(path)}
    if not path.stat().st_size:
        raise DataError("data.empty_pairs_file", path=path)
    rows, why = _opened(path)
    if rows is not None and (found := _of_rows(rows)):
        return found
    if kind := _headerless(path):
        split = split_named(path.name) if kind == "trec" else None
        return {"kind": kind, "path": str(path), **({"split": split} if split else {})}
    if rows is not None:
        raise DataError("data.unclear_columns", path=path, unclear=_unclear(rows))
    if b"\t" in first_bytes(path).partition(b"\n")[0]:
        raise DataError("data.table_without_suffix", path=path, quote=shlex.quote(str(path)))
    quote, variants = shlex.quote(str(path)), ", ".join(Format.variants())
    raise DataError("data.unknown_format", path=path, reason=why, quote=quote, variants=variants)


def _opened(path: Path) -> tuple[RowFile | None, str]:
    """The file as rows, or why it holds none; an unreadable header is a DataError."""
    try:
        return RowFile.open(str(path), "data.path"), ""
    except DataError as error:
        if error.code in _OF_HEADER and not (error.code == "data.column_name_twice" and _headerless(path)):
            raise
        return None, f" ({error})"


def _of_rows(rows: RowFile) -> dict[str, Any] | None:
    """The format of rows with named columns, by the first of them, or by the names of the columns."""
    first = next((row for _, row in rows.rows(rows.columns)), {})
    path = str(rows.path)
    for kind, variant in Format.variants().items():
        if variant.fits(first):
            return {"kind": kind, "path": path}
    chosen = choose_columns(rows, {}, NAMES)
    lists = [name for name, value in first.items() if name.lower() in ("answers", "answer") and isinstance(value, list)]
    if lists and chosen.get("document", lists[0]) == lists[0] and "doc_id" not in chosen:
        return _with_answers(rows, lists[0], chosen.get("query"))
    return {"kind": "pairs", "path": path} if "query" in chosen and chosen.keys() & {"document", "doc_id"} else None


def _with_answers(rows: RowFile, answers: str, query: str | None) -> dict[str, Any] | None:
    """Questions with lists of answers: pairs with a column of documents, else DataError with both readings."""
    path, plain = str(rows.path), {plain_name(name): name for name in rows.columns if name not in (answers, query)}
    query = query or plain.get("qtext")
    if query and (documents := [plain[name] for name in NAMES["document"] if name in plain]):
        return {"kind": "pairs", "path": path, "columns": {"query": query, "document": documents[0]}}
    if not query:
        return None
    pairs, quote = _typed(rows, query, answers), shlex.quote(path)
    raise DataError("data.answers_or_documents", path=path, query=query, answers=answers, pairs=pairs, quote=quote)


def _unclear(rows: RowFile) -> str:
    """Why columns are no pair, and the remedy."""
    is_text = rows.path.name.lower().endswith((".csv", ".tsv"))
    delete = f"delete it (tail -n +2 {shlex.quote(str(rows.path))} > NEW)" if is_text else "delete it"
    if rows.columns[0].strip().lower().startswith("sep="):
        return f"begins with Excel's line sep=, and no names of columns: {delete}"
    if len(rows.columns) == 1:
        title = f"; if it is a title above the columns' names, {delete}" if rows.suffix in FLAT else ""
        return f"has only one column, {rows.columns[0]}: a pair needs a query and a document{title}"
    named = found_in(rows)
    if rows.suffix in FLAT and any(map(_NO_NAME.fullmatch, rows.columns[not rows.columns[0] :])):
        return (
            f"has a first line that names no columns ({named.removeprefix('it has ')}): if it is a pair, add a line "
            f"above it, such as query,document; if it is a title above the names, {delete}"
        )
    if rows.suffix not in FLAT and any(map(_NO_NAME.fullmatch, rows.columns)):
        texts = named.removeprefix("it has ")
        return f"has texts for names of fields ({texts}): write an object with query and document for each pair"
    headed = "; if the first line is a pair, add names above it" if rows.suffix in FLAT else ""
    return f"does not tell the columns of query and document apart; {named}{headed}: {_mapping(rows)}"


def _mapping(rows: RowFile) -> str:
    """The command with columns added: the ones with known names, else by parts of names, else the longest texts."""
    first = rows.first(rows.columns)
    known = choose_columns(rows, {}, NAMES)
    listed = {name: [max(texts, key=len) for row in first if (texts := _texts(row[name]))] for name in rows.columns}
    lengths = {name: mean(map(len, texts)) for name, texts in listed.items() if texts and are_texts(texts)}
    known = {what: name for what, name in known.items() if name in lengths}
    plain = {name: plain_name(name) for name in lengths}
    short = {name for name in lengths if plain[name] in MEANINGFUL and lengths[name] < _LONG_LABEL}
    taken = {*short, *known.values()} - {known.get("title"), known.get("source")}
    free = [name for name in lengths if name not in taken and not _NO_TEXT.fullmatch(plain[name])]
    longest = sorted(free, key=lambda name: (lengths[name], free.index(name)))
    wrong = [name for name in longest if _WRONG.search(plain[name])]
    query = known.get("query") or next(filter(_ASKS.search, [name for name in longest if name not in wrong]), None)
    variants = [name for name in longest if query and CHOICES.fullmatch(plain[name])]  # one of them may be right
    longest = [name for name in longest if name not in (query, *wrong, *variants)]
    document = known.get("document") or next(filter(_REPLIES.search, longest[::-1]), longest[-1] if longest else None)
    longest = [name for name in longest if name != document]
    query = query or (longest.pop() if longest else None)
    if query is None or document is None:
        fields = {name: value for row in first[:1] for name, value in row.items() if isinstance(value, dict)}
        inside = "; ".join(f"{name} ({', '.join(value)})" for name, value in fields.items())
        nested = f", or make columns of the fields in {inside}" if inside else ""
        return f"a pair needs a column of queries and one of documents, so add the missing one{nested}"
    return f"if {query!r} is the query, {_typed(rows, query, document, *wrong[:1])}"


def _texts(value: Any) -> list[str]:
    """A text, or the texts of a list or of its objects."""
    if isinstance(value, list):
        listed = [next(filter(None, map(one.get, TEXTS)), "") if isinstance(one, dict) else one for one in value]
    else:
        listed = [value]
    return [one for one in listed if one.strip()] if all(isinstance(one, str) for one in listed) else []


def _typed(rows: RowFile, query: str, document: str, negative: str | None = None) -> str:
    """The command that was typed, with the columns of a pair, or the setting."""
    columns = {"query": query, "document": document, **({"negative": negative} if negative else {})}
    words, named = typed_words.get(), with_columns(columns, rows.path)
    if not words:
        return f"set {named}"
    if words[0] not in ("audit", "init", "mine") and any(name != name.strip() for name in (query, document)):
        return "call them query and document in the file's first row"
    return f"type {named}{'' if words[0] in WITH_COLUMNS else ', and go on with the folder that it writes'}"


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
    arrays = [[str(value) for value, _ in array_in(line) or ()] for line in lines]
    if all(arrays) and (len(lines) > 1 or path.suffix.lower() != ".json") and _are_triples(arrays):
        return "triples"
    if all(len(row) == 3 for row in cells) and _are_triples(cells):
        return "triples"
    if all(len(row) == 2 and _LITERAL.match(row[1]) for row in cells):
        return "topics"
    if all(len(row) == 2 and row[0].isdecimal() for row in cells):
        raise DataError("data.queries_or_documents", path=path, quote=shlex.quote(str(path)))
    return None


def _are_triples(lines: Sequence[Sequence[str]]) -> bool:
    """Whether lines are ids, or texts without a line of names above them and without judgements among them."""
    first, *rest = lines
    if all(cell.strip().isdecimal() for cell in first):
        return True
    is_named = all(map(_NAME.fullmatch, first)) and any(" " in cell.strip() for line in rest for cell in line)
    return not is_named and not any(all(map(is_judgement, column)) for column in zip(*(rest or lines), strict=False))
