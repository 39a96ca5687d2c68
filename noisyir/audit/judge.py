"""Verdicts of people: read from a file, put above the machine's, and used to set the machine right."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.row_files import RowFile
from noisyir.errors import ConfigError, DataError
from noisyir.noise.judgement import recalibrate
from noisyir.noise.rate import pairs_to_judge
from noisyir.report.audit_csv import unguard
from noisyir.report.audit_reasons import chance

Pair: TypeAlias = tuple[str, str]  # query_id, doc_id
Verdict = Literal["wrong", "clean", "unclear"]
Judgements: TypeAlias = Mapping[Pair, Verdict]
Changes: TypeAlias = Mapping[int, Mapping[str, Any]]  # row to the columns that get another value

_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_COLUMNS = ("query_id", "doc_id", "verdict")
_SHOWN = 3  # examples in a message


@dataclass(frozen=True)
class Recalibrated:
    """An audit after pairs were judged by hand: `table` is as AUDIT, with new p_clean, verdicts and reasons.

    rate, low, high: the share of wrong pairs by the judgements and its interval at `confidence`; rate_before: what it
    was taken for.  threshold: the highest score of a pair called clean; flagged, flagged_before: pairs called wrong.
    judged: pairs judged wrong or clean; unclear: pairs about which the judge could not tell, which count for nothing;
    agreed: share of those judged on which the machine had said the same.
    """

    table: pa.Table
    rate: float
    low: float
    high: float
    rate_before: float
    confidence: float
    threshold: float
    flagged: int
    flagged_before: int
    judged: int
    unclear: int
    agreed: float

    def summary(self) -> str:
        """What changed, for a terminal."""
        unclear = f", {self.unclear:,} unclear" if self.unclear else ""
        return (
            f"judged      {self.judged:,} pairs{unclear}; the machine had said the same of {self.agreed:.0%}\n"
            f"noise rate  {self.rate_before:.1%} before, {self.rate:.1%} by the judgements "
            f"[{self.low:.1%}, {self.high:.1%}] at {self.confidence:.0%}\n"
            f"threshold   a pair is called wrong when its score is above {self.threshold:.3g}\n"
            f"flagged     {self.flagged_before:,} pairs before, {self.flagged:,} now"
        )


def read_judgements(path: Path, audit: pa.Table) -> Judgements:
    """Verdicts (wrong, clean, unclear) by pair, from a file with query_id, doc_id and verdict; an empty one is none.

    DataError for a missing column, another word, a pair that the audit does not have or that is judged both ways, and
    a file without any verdict.
    """
    file = RowFile.open(str(path), "--judgements")
    if missing := [name for name in _COLUMNS if name not in file.columns]:
        raise DataError(f"{path} lacks the column {', '.join(missing)}; it has {', '.join(file.columns)}")
    known = set(_ids(audit))
    found: dict[Pair, tuple[Verdict, int]] = {}
    unknown: dict[Pair, int] = {}
    for number, row in file.rows(_COLUMNS):
        pair = _id(row, "query_id", file, number), _id(row, "doc_id", file, number)
        verdict = _verdict(row["verdict"], file, number)
        if verdict is None:
            continue
        if pair not in known:
            unknown.setdefault(pair, number)
        else:
            first, at = found.setdefault(pair, (verdict, number))
            if first != verdict:
                raise DataError(
                    f"{file.place} {number}: query {pair[0]!r} with document {pair[1]!r} is judged {verdict}, but "
                    f"{first} at {at}: keep one of the two"
                )
    if unknown:
        raise DataError(_unknown_pairs(file, unknown))
    if not found:
        raise DataError(f"{path} holds no verdict: put one of {', '.join(_VERDICTS)} into the column verdict")
    return {pair: verdict for pair, (verdict, _) in found.items()}


def overruled(audit: pa.Table, judgements: Judgements) -> pa.Table:
    """The audit with the verdicts of people in place of the machine's: p_clean 1 or 0; unclear changes nothing.

    A pair that only a person calls wrong gets its first better document as its replacement, where it has one.
    """
    better = audit["better"].to_pylist()
    replacement = audit["replacement"].to_pylist()
    changed: dict[int, dict[str, Any]] = {}
    for row, pair in enumerate(_ids(audit)):
        verdict = judgements.get(pair)
        if verdict == "clean":
            changed[row] = {"p_clean": 1.0, "replacement": None}
        elif verdict == "wrong":
            changed[row] = {"p_clean": 0.0, "replacement": replacement[row] or next(iter(better[row]), None)}
        else:
            continue
        changed[row] |= {"verdict": verdict, "reason": f"Judged {verdict} by hand."}
    return _with(audit, changed)


def recalibrated(
    audit: pa.Table,
    judgements: Judgements,
    threshold: float = 0.5,
    *,
    rate: float | None = None,
    confidence: float = 0.95,
) -> Recalibrated:
    """The audit with the chances and verdicts that judgements by hand give the scores; judged pairs get theirs.

    threshold: least probability of being clean that a clean pair has.  rate: what the noise rate was taken for, the
    share called wrong by default.  DataError as `read_judgements`, and where the judgements do not tell a threshold.
    """
    if not 0 < threshold < 1:
        raise ConfigError(f"the threshold is a probability between 0 and 1, not {threshold}")
    place = {pair: row for row, pair in enumerate(_ids(audit))}
    decided = {pair: verdict for pair, verdict in judgements.items() if verdict != "unclear"}
    if not decided:
        raise DataError("no pair is judged wrong or clean: judge at least one of either kind, better twenty")
    rows = np.array([place[pair] for pair in decided])
    is_wrong = np.array([verdict == "wrong" for verdict in decided.values()])
    scores = audit["score"].to_numpy().astype(np.float64)
    found = recalibrate(scores, rows, is_wrong, threshold, confidence)
    p_clean = (1 - found.p_wrong(scores)).astype(np.float32)
    was_wrong = pc.equal(audit["verdict"], "wrong").to_numpy()
    table = overruled(_rejudged(audit, p_clean, p_clean < np.float32(threshold), len(decided)), judgements)
    return Recalibrated(
        table,
        *(found.rate, found.low, found.high),
        rate_before=float(was_wrong.mean()) if rate is None else rate,
        confidence=confidence,
        threshold=found.threshold,
        flagged=pc.sum(pc.equal(table["verdict"], "wrong")).as_py(),
        flagged_before=int(was_wrong.sum()),
        judged=len(decided),
        unclear=len(judgements) - len(decided),
        agreed=float((was_wrong[rows] == is_wrong).mean()),
    )


def how_many(rate: float, error: float, confidence: float, pairs: int) -> str:
    """How many of the pairs to judge by hand to know the noise rate, in words.  ConfigError for impossible wishes."""
    if not 0 < confidence < 1:
        raise ConfigError(f"the confidence of a noise rate lies between 0 and 1, such as 0.95, not {confidence}")
    count = pairs_to_judge(rate, error, confidence, pairs)
    number = f"all {pairs:,} pairs" if count >= pairs else f"{count:,} pairs"
    return f"To know the rate within ± {100 * error:g} points at {100 * confidence:g} %: judge {number}"


def _rejudged(audit: pa.Table, p_clean: np.ndarray, is_wrong: np.ndarray, judged: int) -> pa.Table:
    """The audit under new chances.  A reason stays where its verdict does, and quotes the new chance."""
    changed: dict[int, dict[str, Any]] = {}
    columns = ("verdict", "p_clean", "reason", "replacement", "better")
    for row, (verdict, before, reason, replacement, better) in enumerate(_rows(audit, columns)):
        now = "wrong" if is_wrong[row] else "clean"
        p = float(p_clean[row])
        changed[row] = {"p_clean": p}
        if now == verdict:
            changed[row]["reason"] = reason.replace(f"right {chance(before)})", f"right {chance(p)})")
            continue
        changed[row] |= {
            "verdict": now,
            "reason": f"By {judged:,} judgements, pairs of this score are right with a chance of {chance(p)}.",
            "replacement": (replacement or next(iter(better), None)) if now == "wrong" else None,
        }
    return _with(audit, changed)


def _with(audit: pa.Table, changed: Changes) -> pa.Table:
    """The audit with some values of some rows changed."""
    for name in sorted({name for values in changed.values() for name in values}):
        values = audit[name].to_pylist()
        for row, new in changed.items():
            values[row] = new.get(name, values[row])
        field = audit.schema.field(name)
        audit = audit.set_column(audit.schema.get_field_index(name), field, pa.array(values, field.type))
    return audit


def _ids(audit: pa.Table) -> list[Pair]:
    return cast(list[Pair], _rows(audit, ("query_id", "doc_id")))


def _rows(audit: pa.Table, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*(audit[name].to_pylist() for name in columns), strict=True))


def _id(row: Mapping[str, Any], column: str, file: RowFile, number: int) -> str:
    value = row[column]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise DataError(f"{file.place} {number}: {column} must be an id, found {value!r:.60}")
    return unguard(value) if file.suffix == ".csv" else value


def _verdict(value: object, file: RowFile, number: int) -> Verdict | None:
    word = "" if value is None else str(value).strip().lower()
    if not word:
        return None
    for verdict in _VERDICTS:
        if word == verdict:
            return verdict
    raise DataError(f"{file.place} {number}: the verdict must be {', '.join(_VERDICTS)} or empty, found {value!r:.60}")


def _unknown_pairs(file: RowFile, unknown: Mapping[Pair, int]) -> str:
    examples = [f"{query!r} with {doc!r} ({number})" for (query, doc), number in list(unknown.items())[:_SHOWN]]
    more = ", ..." if len(unknown) > _SHOWN else ""
    return (
        f"{file.path}: {len(unknown):,} judged pairs are not in this audit: {', '.join(examples)}{more}; "
        "give the audit that they were judged in, or remove them"
    )
