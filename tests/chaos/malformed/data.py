"""Raw data that is not as its format says: pairs as jsonl, csv, tsv and parquet, BEIR, SQuAD, DPR, MS MARCO."""

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.data.ingesting import IngestedRecords
from noisyir.methods import experiments
from tests.chaos.malformed.trial import Make, Read, Trial
from tests.tiny import write_beir, write_dpr
from tests.tiny_squad import write_squad

Damage = Callable[[Path, random.Random], None]
ROWS = 160


def trials(draw: random.Random) -> Iterator[Trial]:
    """Every damage in every file that it can be done to."""
    for suffix in ("jsonl", "csv", "tsv"):
        for name, change in {**LINES, **(JSON_LINES if suffix == "jsonl" else SEPARATED[suffix])}.items():
            yield Trial(f"pairs {suffix} {name}", _pairs(suffix, change), f"pairs.{suffix}")
    for name, change in PARQUET.items():
        yield Trial(f"pairs parquet {name}", _pairs("parquet", change), "pairs.parquet")
    for name, change in GZIPPED.items():
        for suffix in ("jsonl.gz", "csv.gz"):
            yield Trial(f"pairs {suffix} {name}", _pairs(suffix, change), f"pairs.{suffix}")
    yield from _of_folders()


def _of_folders() -> Iterator[Trial]:
    for kind, (write, files) in FOLDERS.items():
        for file in files:
            for name, change in _changes(file).items():
                yield Trial(f"{kind} {file} {name}", _in_folder(kind, write, file, change), _place(file, name))


def _changes(file: str) -> dict[str, Damage]:
    """What can be wrong with a file of a folder; of qrels that are gone, or no file, the split is not there."""
    if file.endswith(".json"):
        return {**_without_gone(file), **{key: LINES[key] for key in ("invalid UTF-8", "cut off")}, **WHOLE_JSON}
    lines = {**LINES, **({key: JSON_LINES[key] for key in ANY_JSON} if file.endswith(".jsonl") else {})}
    if file in _ENDS_IN_TEXT:
        lines.pop("cut off")
    if file == "corpus.jsonl":  # of documents, fields that nobody reads are passed over
        lines.pop("5,000 digits")
    return lines if "qrels" in file else {**lines, **_without_gone(file)}


# A file that ends in a text ends in a shorter one when it is cut off, which nobody can tell.
_ENDS_IN_TEXT = ("collection.tsv", "queries.train.tsv", "psgs_w100.tsv")
_MAY_BE_ABSENT = ("nq-dev.qa.csv", "biencoder-nq-train.json")


def _without_gone(file: str) -> dict[str, Damage]:
    return {name: change for name, change in FILES.items() if name != "gone" or file not in _MAY_BE_ABSENT}


def _place(file: str, name: str) -> str:
    return "" if name in ("gone", "a pipe", "a folder", "a device", "emptied") else Path(file).name


# What is read --------------------------------------------------------------------------------------------------------


def read_all(**data: object) -> None:
    """Read data as ingest does."""
    exp = experiments.from_settings({"name": "malformed", "data": data}, [])
    source = exp.data.open(1)
    exp.data.digest()
    checked = IngestedRecords(source.name, exp.data, may_repeat=getattr(source, "repeats_pairs", False))
    for _ in checked.documents(source.records()):
        pass
    checked.tables()
    if getattr(exp.data, "has_weights", False):
        list(source.weights())  # type: ignore[attr-defined]


def _rows() -> list[dict[str, object]]:
    return [
        {
            "query_id": f"q{n}",
            "query": f"what is w{n}?",
            "doc_id": f"d{n}",
            "document": f"w{n} is a word",
            "weight": 0.5,
        }
        for n in range(ROWS)
    ]


def _pairs(suffix: str, change: Damage) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        path = folder / f"pairs.{suffix}"
        write_rows(path, _rows())
        change(path, draw)
        return lambda: read_all(kind="pairs", path=str(path))

    return make


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    """Rows as a file of the format that its suffix says."""
    plain = path.name.removesuffix(".gz")
    if plain.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    if plain.endswith(".jsonl"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        comma = "," if plain.endswith(".csv") else "\t"
        text = "".join(comma.join(map(str, cells)) + "\n" for cells in [list(rows[0]), *(row.values() for row in rows)])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def _in_folder(kind: str, write: Callable[[Path], object], file: str, change: Damage) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        write(folder / "data")
        change(folder / "data" / file, draw)
        return lambda: read_all(kind=kind, path=str(folder / "data"))

    return make


def _squad(folder: Path) -> None:
    folder.mkdir()
    write_squad(folder)


def _msmarco(folder: Path) -> None:
    folder.mkdir()
    (folder / "collection.tsv").write_text("".join(f"{n}\tw{n} is a word\n" for n in range(ROWS)))
    for split in ("train", "dev"):
        (folder / f"queries.{split}.tsv").write_text("".join(f"{split}{n}\twhat is w{n}?\n" for n in range(ROWS)))
        (folder / f"qrels.{split}.tsv").write_text("".join(f"{split}{n}\t0\t{n}\t1\n" for n in range(ROWS)))


FOLDERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "beir": (write_beir, ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv")),
    "squad": (_squad, ("train-v1.1.json",)),
    "dpr": (write_dpr, ("psgs_w100.tsv", "biencoder-nq-train.json", "nq-dev.qa.csv")),
    "msmarco": (_msmarco, ("collection.tsv", "queries.train.tsv", "qrels.train.tsv")),
}


# What is wrong with it -----------------------------------------------------------------------------------------------


def line(change: Callable[[str, random.Random], str], first: int = 1) -> Damage:
    """A damage to one line, drawn; first: not before this one."""

    def damage(path: Path, draw: random.Random) -> None:
        lines = path.read_text().splitlines()
        number = draw.randrange(min(first, len(lines) - 1), len(lines))
        lines[number] = change(lines[number], draw)
        path.write_text("\n".join(lines) + "\n")

    return damage


def field(name: str, value: Callable[[random.Random], object]) -> Damage:
    """One row of a jsonl file with another value."""
    return line(lambda text, draw: json.dumps({**json.loads(text), name: value(draw)}))


def raw(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    """A damage to the file's bytes."""
    return lambda path, draw: void(path.write_bytes(change(path.read_bytes(), draw)))


def instead(make: Callable[[Path], object]) -> Damage:
    """Something else in the file's place."""

    def damage(path: Path, draw: random.Random) -> None:
        path.unlink()
        make(path)

    return damage


def void(_: object) -> None:
    """Nothing."""


def _invalid_utf8(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data) // 2, len(data) - 2)
    return data[:place] + draw.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8"]) + data[place:]


def _two_lengths(text: str, draw: random.Random) -> str:
    return json.dumps({**json.loads(text), "document": ["a"], "doc_id": ["a", "b"]})


def _nested(text: str, draw: random.Random) -> str:
    depth = draw.choice([5_000, 100_000])
    return '{"query": ' + "[" * depth + "]" * depth + "}"


def _in_two_splits(data: bytes, draw: random.Random) -> bytes:
    one_query = {"query_id": "q", "query": "same"}
    rows = [
        {**json.loads(one), **one_query, "split": ("train", "test")[n % 2]} for n, one in enumerate(data.splitlines())
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


LINES: dict[str, Damage] = {
    "invalid UTF-8": raw(_invalid_utf8),
    "UTF-16": raw(lambda data, draw: data.decode().encode(draw.choice(["utf-16", "utf-16-le"]))),
    "emptied": raw(lambda data, draw: b""),
    "a line of 40 MB": line(lambda text, draw: text + "x" * (40 << 20)),
    "zeros": raw(lambda data, draw: data[: len(data) // 2] + b"\0" * 5000 + data[len(data) // 2 :]),
    "cut off": raw(lambda data, draw: data[: -draw.randrange(5, 9)]),
}
FILES: dict[str, Damage] = {
    "a pipe": instead(os.mkfifo),
    "a folder": instead(Path.mkdir),
    "gone": instead(lambda path: None),
    "a device": instead(lambda path: path.symlink_to("/dev/zero")),
}
_SPOILT: dict[str, Callable[[random.Random], object]] = {
    "a list": lambda draw: [draw.random()],
    "an object": lambda draw: {"a": 1},
    "true": lambda draw: True,
    "a fraction": lambda draw: draw.random(),
}
ANY_JSON = ("a line cut", "no comma", "single quotes", "a key twice", "an array", "a number", "deep", "5,000 digits",
             "half a surrogate", "a raw tab")  # fmt: skip
JSON_LINES: dict[str, Damage] = {
    "a line cut": line(lambda text, draw: text[: draw.randrange(1, len(text) - 1)]),
    "no comma": line(lambda text, draw: text.replace(", ", " ", 1)),
    "single quotes": line(lambda text, draw: text.replace('"', "'")),
    "a key twice": line(lambda text, draw: text[:-1] + ", " + text[1:]),
    "an array": line(lambda text, draw: f"[{text}]"),
    "a number": line(lambda text, draw: str(draw.randrange(10**6))),
    "deep": line(_nested),
    "5,000 digits": line(lambda text, draw: text[:-1] + ', "more": ' + "9" * 5000 + "}"),
    "half a surrogate": line(lambda text, draw: text[:-1] + ', "more": "\\ud800"}'),
    "a raw tab": line(lambda text, draw: text.replace('"', '"\t', 1)),
    **{f"query is {name}": field("query", value) for name, value in _SPOILT.items()},
    **{f"document is {name}": field("document", value) for name, value in _SPOILT.items() if name != "a list"},
    **{f"query_id is {name}": field("query_id", value) for name, value in _SPOILT.items()},
    "a list of other things": field("document", lambda draw: [1, "two"]),
    "lists of two lengths": line(_two_lengths),
    "weight above 1": field("weight", lambda draw: 1 + draw.random()),
    "weight below 0": field("weight", lambda draw: -draw.random() - 0.01),
    "weight NaN": field("weight", lambda draw: float("nan")),
    "weight in words": field("weight", lambda draw: "half"),
    "no query": field("query", lambda draw: draw.choice([None, "", "  "])),
    "no document": field("document", lambda draw: draw.choice([None, "", " \t"])),
    "an id with two texts": line(lambda text, draw: json.dumps({**json.loads(text), "query_id": "q0"}), first=2),
    "a late split": line(lambda text, draw: json.dumps({**json.loads(text), "split": "test"}), first=120),
    "a late Doc-ID": line(lambda text, draw: json.dumps({**json.loads(text), "title": "late"}), first=101),
    "an unknown split": raw(lambda data, draw: data.replace(b'"weight"', b'"split": "eval", "weight"')),
    "a column twice": raw(lambda data, draw: data.replace(b'"weight"', b'"query": "again", "weight"')),
    "no column for query": raw(lambda data, draw: data.replace(b'"query"', b'"ask"')),
    "a query in two splits": raw(_in_two_splits),
}  # fmt: skip
_ANY_SEPARATED: dict[str, Damage] = {
    "a cell less": line(lambda text, draw: text.replace(_comma(text), "", 1)),
    "a cell more": line(lambda text, draw: text + _comma(text) + "more"),
    "weight in words": line(lambda text, draw: text.rsplit(_comma(text), 1)[0] + _comma(text) + "much"),
    "weight infinite": line(lambda text, draw: text.rsplit(_comma(text), 1)[0] + _comma(text) + "inf"),
    "no header": raw(lambda data, draw: data.split(b"\n", 1)[1]),
    "a column twice": raw(lambda data, draw: data.replace(b"doc_id", b"query", 1)),
    "the header alone": raw(lambda data, draw: data.split(b"\n", 1)[0] + b"\n"),
    "an id with two texts": line(lambda text, draw: "q0" + text[text.index(_comma(text)) :], first=3),
}


def _comma(text: str) -> str:
    return "\t" if "\t" in text else ","


SEPARATED: dict[str, dict[str, Damage]] = {
    "csv": {
        **_ANY_SEPARATED,
        "an open quote": line(lambda text, draw: '"' + text),
        "a quote within": line(lambda text, draw: text.replace(",", ',"a"b', 1)),
    },
    "tsv": {**_ANY_SEPARATED, "spaces": raw(lambda data, draw: data.replace(b"\t", b"    "))},
}


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(8, len(data) - 8)]


def _table(**columns: object) -> Damage:
    rows = {name: [row[name] for row in _rows()] for name in ("query_id", "query", "document")}
    return lambda path, draw: pq.write_table(pa.table({**rows, **columns}), path)


def _of_one_value(text: str) -> Damage:
    return lambda path, draw: pq.write_table(pa.table({"query": ["q"], "document": [text]}), path)


PARQUET: dict[str, Damage] = {
    "cut off": raw(_cut),
    "no Parquet": raw(lambda data, draw: draw.randbytes(5000)),
    "the magic alone": raw(lambda data, draw: b"PAR1PAR1"),
    "a footer of 4 GB": raw(lambda data, draw: data[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "emptied": raw(lambda data, draw: b""),
    "a spoilt footer": raw(lambda data, draw: data[:-60] + draw.randbytes(50) + data[-10:]),
    "spoilt pages": raw(lambda data, draw: data[:4] + draw.randbytes(len(data) // 2) + data[4 + len(data) // 2 :]),
    "no rows": lambda path, draw: pq.write_table(pa.Table.from_pylist(_rows()).slice(0, 0), path),
    "query a number": _table(query=list(range(ROWS))),
    "query a binary": _table(query=[b"\xff\xfe"] * ROWS),
    "query all null": _table(query=pa.nulls(ROWS)),
    "document a list of numbers": _table(document=[[1, 2]] * ROWS),
    "weight in words": _table(weight=["half"] * ROWS),
    "weight NaN": _table(weight=[float("nan")] * ROWS),
    "no query": _table(query=[None] * ROWS),
    "a value of 60 MB": lambda path, draw: pq.write_table(
        pa.table({"query": ["q"], "document": ["x" * (60 << 20)]}), path
    ),
    "query a struct": _table(query=[{"text": "q"}] * ROWS),
}
GZIPPED: dict[str, Damage] = {
    "cut off": raw(_cut),
    "no gzip": raw(lambda data, draw: gzip.decompress(data)),
    "spoilt": raw(lambda data, draw: data[:20] + draw.randbytes(40) + data[60:]),
    "a wrong checksum": raw(lambda data, draw: data[:-8] + draw.randbytes(8)),
    "one line of 300 MB": raw(lambda data, draw: gzip.compress(b'{"query": "' + b"x" * (300 << 20), 1)),
    "emptied": raw(lambda data, draw: b""),
}
WHOLE_JSON: dict[str, Damage] = {
    "a bracket too much": raw(lambda data, draw: data + b"]"),
    "a key twice": raw(lambda data, draw: data.replace(b"{", b'{"a": 1, "a": 2, ', 1)),
    "5,000 digits": raw(lambda data, draw: data.replace(b"{", b'{"a": ' + b"9" * 5000 + b", ", 1)),
    "deep": raw(lambda data, draw: b"[" * 100_000),
    "an object": raw(lambda data, draw: b'{"a": 1}'),
    "words": raw(lambda data, draw: b"not JSON at all"),
    "numbers for texts": raw(lambda data, draw: data.replace(b'"question": "', b'"question": 7, "was": "', 1)),
    "no question": raw(lambda data, draw: data.replace(b'"question"', b'"ask"', 1)),
    "emptied": raw(lambda data, draw: b""),
    "70 MB of brackets": raw(lambda data, draw: b'{"a": "' + b"x" * (70 << 20)),
}
