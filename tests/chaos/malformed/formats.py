"""Files that people bring to `noisyir import`: each format and each container, read by a run and by an import.

A run refuses what is wrong.  An import may leave a row out, but not without a word: its report says which.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from noisyir.app.data_import import import_data, in_words
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from tests.chaos.malformed.data import (
    ANY_JSON,
    FILES,
    JSON_LINES,
    LINES,
    PARQUET,
    SEPARATED,
    WHOLE_JSON,
    Damage,
    field,
    line,
    raw,
    read_all,
)
from tests.chaos.malformed.trial import Make, Read, Trial, folder_until_the_end

_ROWS = 120
_ANY_TABLE = ("cut off", "no Parquet", "the magic alone", "emptied", "spoilt pages")


def trials(draw: random.Random) -> Iterator[Trial]:
    """Every damage in every file that it can be done to, read in both ways."""
    for kind, files in FILES_OF.items():
        for file, changes in files.items():
            for name, change in changes.items():
                place = "" if name in _WHOLE else kind if kind == "so_ds" else Path(file).stem
                yield Trial(f"run with {kind} {file} {name}", _read(kind, file, change), place)
                if file not in _SAYS_THE_FORMAT or name not in _WHOLE:
                    yield Trial(f"import of {kind} {file} {name}", _imported(kind, file, change), place)
    for name, change in CONTAINERS.items():
        yield Trial(f"run with pairs as {name}", _contained(name, change, _run_of_pairs), "pairs")
        yield Trial(f"import of pairs as {name}", _contained(name, change, _import_of), "pairs")


_WHOLE = ("gone", "a pipe", "a folder", "a device", "emptied", "no rows", "the magic alone")


# What is read --------------------------------------------------------------------------------------------------------


@cache
def sound() -> Path:
    """Every format's sound files, in folders of the formats' names, made once for all trials."""
    made = folder_until_the_end("sound")
    rows = made / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in _rows()))
    import_data(str(rows), made / "tables")
    collection = Collection.load(made / "tables")
    for kind, name in _TARGETS.items():
        target = made / kind / name
        target.parent.mkdir(exist_ok=True)
        Format.of_kind(kind).write(collection, target)
    for kind, text in _WRITTEN.items():
        (made / kind).mkdir()
        (made / kind / "topics.txt").write_text(text)
    return made


def _rows() -> Iterator[dict[str, Any]]:
    for n in range(_ROWS):
        yield {
            "query_id": f"q{n}",
            "query": f"what is w{n}?",
            "doc_id": f"d{n}",
            "document": f"w{n} is a word",
            "negative": [f"w{n} is a verb"],
            "negative_id": [f"n{n}"],
        }


# What a format writes, below a folder of its name.
_TARGETS = {
    "tevatron": "rows.jsonl",
    "nemo": "rows.jsonl",
    "swift": "rows.jsonl",
    "flagembedding": "rows.jsonl",
    "sentence_transformers": "rows.csv",
    "dpr_json": "rows.json",
    "triples": "rows.tsv",
    "staqc": "rows.csv",
    "so_ds": "",
    "line_pairs": "rows.nl",
    "trec": "",
}
_WRITTEN = {
    "topics": "".join(f"{n}\twhat is w{n}?\n" for n in range(_ROWS)),
    "marked_topics": "".join(f"<top>\n<num> Number: {n}\n<title> w{n}\n</top>\n" for n in range(_ROWS)),
}


def _settings(kind: str, folder: Path) -> dict[str, str]:
    """The settings of `data` that read a format's files."""
    if kind == "trec":
        names = {"path": "qrels.txt", "queries": "topics.tsv", "corpus": "corpus.tsv", "run": "run.txt"}
        return {"kind": kind, **{name: str(folder / file) for name, file in names.items()}}
    if kind == "line_pairs":
        return {"kind": kind, "path": str(folder / "rows.nl"), "corpus": str(folder / "rows.cm")}
    if kind in _WRITTEN:
        return {"kind": "topics", "path": str(folder / "topics.txt")}
    return {"kind": kind, "path": str(folder / _TARGETS.get(kind, ""))}


def _damaged(kind: str, file: str, change: Damage, folder: Path, draw: random.Random) -> dict[str, str]:
    made = Path(shutil.copytree(sound() / kind, folder / kind))
    change(made / file, draw)
    return _settings(kind, made)


def _read(kind: str, file: str, change: Damage) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        settings = _damaged(kind, file, change, folder, draw)
        return lambda: read_all(**settings)

    return make


def _imported(kind: str, file: str, change: Damage) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        settings = _damaged(kind, file, change, folder, draw)
        beside = {name: path for name, path in settings.items() if name not in ("kind", "path")}
        return lambda: _import(settings["path"], folder, kind=settings["kind"], beside=beside)

    return make


def _import(source: str, folder: Path, **given: Any) -> None:
    """Import it.  DataError with the report where something was left out, for then there was a word."""
    report = import_data(source, folder / "imported", **given).report
    lost = [of for of in report["files"].values() if of["left_out"] or of["parts_left_out"] or of["repeated"]["count"]]
    if lost or report["odd"]:
        told = [said for said in in_words(report).splitlines() if said.startswith(("read", "  ", "odd"))]
        raise DataError("left out, and known by the report: " + "; ".join(map(str.strip, told)))


def _contained(name: str, change: Damage, read: Callable[[Path, Path], object]) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        suffix, _, _ = name.partition(" ")
        path = folder / f"pairs{suffix}"
        rows = ({key: row[key] for key in ("query_id", "query", "doc_id", "document")} for row in _rows())
        write_rows(path, rows)
        change(path, draw)
        return lambda: read(path, folder)

    return make


def _run_of_pairs(path: Path, folder: Path) -> None:
    read_all(kind="pairs", path=str(path))


def _import_of(path: Path, folder: Path) -> None:
    _import(str(path), folder)


# What is wrong with it -----------------------------------------------------------------------------------------------


def _cells(place: int, value: Callable[[str], str], mark: str = "\t") -> Damage:
    """A line with another cell."""

    def changed(text: str, draw: random.Random) -> str:
        cells = text.split(mark)
        cells[place] = value(cells[place])
        return mark.join(cells)

    return line(changed)


def _inner(name: str, **values: object) -> Damage:
    """The first object of a list in one row with other values."""

    def changed(text: str, draw: random.Random) -> str:
        row = json.loads(text)
        row[name][0] |= values
        return json.dumps(row)

    return line(changed)


_lines = {key: LINES[key] for key in LINES if key != "cut off"}  # what ends in a text may end in a shorter one
_json_lines = {**LINES, **{key: JSON_LINES[key] for key in ANY_JSON}, **FILES}
_separated = {
    key: SEPARATED["csv"][key] for key in ("a cell less", "a cell more", "no header", "an open quote", "a quote within")
}
_table = {key: PARQUET[key] for key in _ANY_TABLE}
_less = line(lambda text, draw: text.rpartition("\t")[0])
_more = line(lambda text, draw: f"{text}\tmore")

FILES_OF: dict[str, dict[str, dict[str, Damage]]] = {
    "tevatron": {
        "rows.jsonl": {
            **_json_lines,
            "query is a list": field("query", lambda draw: ["a"]),
            "positives are a text": field("positive_passages", lambda draw: "a passage"),
            "positives are texts": field("positive_passages", lambda draw: ["a passage"]),
            "negatives are an object": field("negative_passages", lambda draw: {"text": "a"}),
            "a text is a number": _inner("positive_passages", text=3),
            "an id is true": _inner("positive_passages", docid=True),
            "a score in words": _inner("negative_passages", score="much"),
            "a text is empty": _inner("positive_passages", text="", title=""),
            "no positives": raw(lambda data, draw: data.replace(b'"positive_passages"', b'"positives"')),
        }
    },
    "flagembedding": {
        "rows.jsonl": {
            **_json_lines,
            "query is a number": field("query", lambda draw: 3),
            "positives are numbers": field("pos", lambda draw: [1, 2]),
            "a negative is an object": field("neg", lambda draw: [{"text": "a"}]),
            "scores of another length": field("neg_scores", lambda draw: [0.5, 0.25, 0.75]),
            "no positives": raw(lambda data, draw: data.replace(b'"pos"', b'"positives"')),
            "a blank positive": field("pos", lambda draw: [" "]),
        }
    },
    "sentence_transformers": {
        "rows.csv": {
            **_lines,
            **FILES,
            **_separated,
            "no anchor": raw(lambda data, draw: data.replace(b"anchor", b"a")),
        }
    },
    "dpr_json": {
        "rows.json": {
            **FILES,
            **{key: LINES[key] for key in ("invalid UTF-8", "cut off", "zeros")},
            **{key: change for key, change in WHOLE_JSON.items() if key not in ("a key twice", "5,000 digits")},
            "a context is a text": raw(
                lambda data, draw: data.replace(b'"positive_ctxs": [{', b'"positive_ctxs": ["w", {', 1)
            ),
            "an id is true": raw(lambda data, draw: data.replace(b'"passage_id": "', b'"passage_id": true, "x": "', 1)),
            "answers in one text": raw(lambda data, draw: data.replace(b'"answers": []', b'"answers": "one"', 1)),
        }
    },
    "triples": {
        "rows.tsv": {
            **_lines, **FILES, "a cell less": _less, "a cell more": _more, "an empty positive": _cells(1, lambda _: ""),
            "an empty query": _cells(0, lambda _: ""), "ids": raw(lambda data, draw: b"1\t2\t3\n" * 9),
        }
    },
    "staqc": {
        "rows.csv": {
            **LINES, **FILES, **_separated, "no label": raw(lambda data, draw: data.replace(b"label", b"said")),
            "a label in words": line(lambda text, draw: f"{text.rsplit(',', 2)[0]},good,train"),
            "half a label": line(lambda text, draw: f"{text.rsplit(',', 2)[0]},0.5,train"),
            "an unknown split": line(lambda text, draw: f"{text.rsplit(',', 1)[0]},eval"),
        }
    },
    "so_ds": {
        "snippets.jsonl": {
            **_json_lines,
            "code is a list": field("code", lambda draw: ["a"]),
            "no id": field("id", lambda draw: None),
            "id is true": field("id", lambda draw: True),
            "description is a number": field("description", lambda draw: 4),
            "an id twice": line(lambda text, draw: json.dumps({**json.loads(text), "id": "d0"}), first=2),
        }
    },
    "line_pairs": {
        "rows.nl": {**_lines, **FILES, "a line less": raw(lambda data, draw: data.split(b"\n", 1)[1])},
        "rows.cm": {**_lines, **FILES, "an empty line": line(lambda text, draw: "")},
    },
    "trec": {
        "qrels.txt": {
            **LINES, "a cell less": line(lambda text, draw: text.rsplit(" ", 1)[0]),
            "a cell more": line(lambda text, draw: f"{text} 1"),
            "a grade in words": line(lambda text, draw: f"{text.rsplit(' ', 1)[0]} good"),
            "half a grade": line(lambda text, draw: f"{text.rsplit(' ', 1)[0]} 0.5"),
            "an unknown query": line(lambda text, draw: f"nobody {text.split(' ', 1)[1]}"),
            "an unknown document": line(lambda text, draw: f"{text.split()[0]} 0 nothing 1"),
            "a pair twice": line(lambda text, draw: f"{text}\n{text}"),
        },
        "topics.tsv": {**_lines, "no tab": line(lambda text, draw: text.replace("\t", " ")),
                       "an id twice": line(lambda text, draw: f"{text}\n{text}")},
        "corpus.tsv": {**_lines, "a cell less": _less, "two cells more": line(lambda text, draw: f"{text}\ta\tb\tc"),
                       "an id twice": line(lambda text, draw: f"{text}\n{text}")},
        "run.txt": {
            **_lines, "a score in words": _cells(4, lambda _: "much", " "),
            "a score infinite": _cells(4, lambda _: "inf", " "),
            "a cell less": line(lambda text, draw: text.rsplit(" ", 1)[0]),
            "an unknown document": _cells(2, lambda _: "nothing", " "),
        },
    },
    "topics": {"topics.txt": {**_lines, **FILES, "no tab": line(lambda text, draw: text.replace("\t", " "))}},
    "marked_topics": {
        "topics.txt": {"no number": raw(lambda data, draw: data.replace(b"<num> Number: 7\n", b"", 1)),
                       "no title": raw(lambda data, draw: data.replace(b"<title> w9\n", b"", 1)),
                       "invalid UTF-8": LINES["invalid UTF-8"], "emptied": LINES["emptied"]},
    },
    "tables": {f"{name}.parquet": _table for name in ("documents", "queries", "judgements", "negatives")},
}  # fmt: skip
_SAYS_THE_FORMAT = ("documents.parquet", "queries.parquet", "judgements.parquet", "negatives.parquet")
_ANY_FILE: dict[str, Damage] = {
    "cut off": PARQUET["cut off"],
    "of random bytes": PARQUET["no Parquet"],
    "emptied": LINES["emptied"],
    "a folder": FILES["a folder"],
    "a pipe": FILES["a pipe"],
    "a device": FILES["a device"],
    "spoilt within": raw(lambda data, draw: data[:900] + draw.randbytes(900) + data[1800:]),
}
CONTAINERS: dict[str, Damage] = {
    f"{suffix} {name}": change
    for suffix in (".arrow", ".feather", ".xlsx", ".json", ".ndjson", ".csv.zst")
    for name, change in _ANY_FILE.items()
} | {
    ".csv.zst no zstd": raw(lambda data, draw: b"query,document\na,b\n"),
    ".ndjson cut off": LINES["cut off"],
    ".json an object": WHOLE_JSON["an object"],
    ".json words": WHOLE_JSON["words"],
}
