"""Files of judgements that a person or a spreadsheet spoilt."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from noisyir.detection.judgements import given_judgements, read_judgements
from tests.chaos.malformed.data import (
    FILES,
    GZIPPED,
    JSON_LINES,
    LINES,
    PARQUET,
    SEPARATED,
    Damage,
    field,
    line,
    raw,
    write_rows,
)
from tests.chaos.malformed.trial import Make, Read, Trial

_COUNT = 120
_OF_ANY_JSON = ("a line cut", "single quotes", "a key twice", "an array", "a number", "deep", "5,000 digits")
_JSON: dict[str, Damage] = {
    **{name: JSON_LINES[name] for name in _OF_ANY_JSON},
    "an unknown verdict": field("verdict", lambda draw: draw.choice(["bad", "yes", "wrnog", 1, [1], True])),
    "a weight of zero": field("weight", lambda draw: 0),
    "a weight below zero": field("weight", lambda draw: -draw.randrange(1, 9)),
    "a weight in words": field("weight", lambda draw: "many"),
    "a weight infinite": field("weight", lambda draw: float("inf")),
    "an id that is null": field("query_id", lambda draw: None),
    "an id that is a list": field("doc_id", lambda draw: ["d1"]),
    "an id that is true": field("doc_id", lambda draw: True),
    "an empty id": field("query_id", lambda draw: ""),
    "a bad time": field("at", lambda draw: draw.choice(["yesterday", "2026-13-01", "25:00", [1], {"a": 1}])),
    "a time beyond time": field("at", lambda draw: "99999-01-01T00:00:00Z"),
    "a replacement that is a list": field("replacement", lambda draw: ["d1"]),
    "no verdicts": raw(lambda data, draw: data.replace(b'"wrong"', b'""')),
    "no column for the verdict": raw(lambda data, draw: data.replace(b'"verdict"', b'"said"')),
    "two words of one judge": line(lambda text, draw: text + "\n" + text.replace('"wrong"', '"clean"')),
}


def trials(draw: random.Random) -> Iterator[Trial]:
    """Each damage in the formats that it can be done to."""
    for name, change in {**LINES, **FILES, **_JSON}.items():
        yield Trial(f"judgements jsonl {name}", _judged("jsonl", change), "judged.jsonl")
    for suffix in ("csv", "tsv"):
        skipped = ("weight in words", "weight infinite", "an id with two texts")
        for name, change in {**LINES, **SEPARATED[suffix]}.items():
            if name not in skipped:
                yield Trial(f"judgements {suffix} {name}", _judged(suffix, change), f"judged.{suffix}")
    for name in ("cut off", "no Parquet", "a footer of 4 GB", "emptied", "no rows", "query a number"):
        yield Trial(f"judgements parquet {name}", _judged("parquet", PARQUET[name]), "judged.parquet")
    for name, change in GZIPPED.items():
        yield Trial(f"judgements jsonl.gz {name}", _judged("jsonl.gz", change), "judged.jsonl.gz")
    for suffix in ("xlsx", "parquet.gz"):
        yield Trial(f"judgements as {suffix}", _called(suffix), f"judged.{suffix}")
    yield Trial("judgements of other pairs", _of_others, "judged.jsonl")


def _rows() -> list[dict[str, object]]:
    return [
        {"query_id": f"q{n}", "doc_id": f"d{n}", "verdict": "wrong", "judge": "ann", "weight": 2} for n in range(_COUNT)
    ]


def _judged(suffix: str, change: Damage) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        path = folder / f"judged.{suffix}"
        write_rows(path, _rows())
        change(path, draw)
        return lambda: given_judgements([str(path)])

    return make


def _called(suffix: str) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        write_rows(folder / "judged.jsonl", _rows())
        path = (folder / "judged.jsonl").rename(folder / f"judged.{suffix}")
        return lambda: given_judgements([str(path)])

    return make


def _of_others(folder: Path, draw: random.Random) -> Read:
    write_rows(folder / "judged.jsonl", _rows())
    audited = pa.table({"query_id": ["other"], "doc_id": ["one"]})
    return lambda: read_judgements([str(folder / "judged.jsonl")], audited)
