"""Judgements as lines of a file, a judge's own: who said what of which pair, when, and how the pair was drawn."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from noisyir.data.row_files import RowFile
from noisyir.errors import DataError, StoreError
from noisyir.noise.questions import Draw
from noisyir.verdicts.files import unguard
from noisyir.verdicts.judgements import Pair

MODEL_JUDGEMENTS = "model_judgements.jsonl"
BY_MODEL = "model:"  # how the names of judges that are not people begin
_DECIDED = {"wrong": True, "clean": False}


class Judgement(BaseModel):
    """One line.  weight: how many pairs a randomly drawn one stands for; at: time of the answer, ISO 8601, UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query_id: str
    doc_id: str
    verdict: Literal["wrong", "clean", "unclear"]
    judge: str
    draw: Draw
    weight: float | None
    replacement: str | None
    reason: str
    at: str


class ByPeople(NamedTuple):
    """What people say of a pair: whether it is wrong, and how many pairs it stands for where it was drawn at random."""

    wrong: bool
    weight: float | None


def write_judgements(judgements: Iterable[Judgement], path: Path) -> None:
    """Replace the file, whole or not at all.  StoreError where it cannot be written."""
    lines = (json.dumps(one.model_dump(), ensure_ascii=False) + "\n" for one in judgements)
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("".join(lines), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error


def read_people(path: str, setting: str) -> dict[Pair, ByPeople]:
    """What people decided, by pair, from a file with query_id, doc_id, verdict, and perhaps judge, draw and weight.

    Left out are pairs about which they were unsure or did not agree, and what a model judged.
    """
    file = RowFile.open(path, setting)
    wanted = [name for name in ("query_id", "doc_id", "verdict", "judge", "draw", "weight") if name in file.columns]
    found: dict[Pair, set[ByPeople]] = {}
    for number, row in file.rows(wanted):
        wrong = _DECIDED.get(str(row.get("verdict") or "").strip().lower())
        if wrong is None or str(row.get("judge") or "").startswith(BY_MODEL):
            continue
        ids = [str(row.get(name)) for name in ("query_id", "doc_id")]
        query, document = map(unguard, ids) if file.suffix == ".csv" else ids
        found.setdefault((query, document), set()).add(ByPeople(wrong, _weight(row, f"{file.place} {number}")))
    return {pair: _one(said) for pair, said in found.items() if len({one.wrong for one in said}) == 1}


def _one(said: Iterable[ByPeople]) -> ByPeople:
    """What several judges, or one several times, agree on; drawn at random if it was once."""
    return max(said, key=lambda one: one.weight or 0.0)


def _weight(row: dict[str, Any], place: str) -> float | None:
    """Of a pair that was drawn at random; `sample.csv` has no column that says so, and no other pairs."""
    if row.get("weight") in (None, "") or row.get("draw") == "teaching":
        return None
    try:
        return float(row["weight"])
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: weight must be a number or empty, found {row['weight']!r:.60}") from error
