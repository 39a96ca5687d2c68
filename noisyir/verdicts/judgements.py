"""Verdicts of people: read from a file, put above the machine's, and used to set the machine right."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.row_files import RowFile
from noisyir.engine.provenance import files_digest
from noisyir.engine.tables import pair_ids
from noisyir.errors import ConfigError, DataError
from noisyir.noise.judgement import recalibrate
from noisyir.noise.rate import pairs_to_judge
from noisyir.verdicts.files import unguard
from noisyir.verdicts.settings import AuditParams

Pair: TypeAlias = tuple[str, str]  # query_id, doc_id
Verdict = Literal["wrong", "clean", "unclear"]
Judgements: TypeAlias = Mapping[Pair, Verdict]

_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_COLUMNS = ("query_id", "doc_id", "verdict")
_SETTING = "audit.judgements"
MOST_SUSPECT_FIRST = [
    ("p_clean", "ascending"),
    ("score", "descending"),
    ("query_id", "ascending"),
    ("doc_id", "ascending"),
]
_SHOWN = 3  # examples in a message
_LEAST_CHANCE = np.finfo(np.float32).tiny
_LARGEST_CHANCE = np.nextafter(np.float32(1), np.float32(0))


@dataclass(frozen=True)
class Recalibration:
    """What judgements by hand say of an audit, and what they change.

    rate, low, high: the share of wrong pairs by the judgements and its interval at `confidence`; rate_before: what it
    was taken for.  threshold: the highest score of a pair called clean; flagged, flagged_before: pairs called wrong.
    judged: pairs judged wrong or clean; unclear: pairs about which the judge could not tell, which count for nothing;
    agreed: share of those judged on which the machine had said the same.
    """

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


def judgements_digest(params: AuditParams) -> str | None:
    """What stands for the judgements in the key of the audit: a hash of their file; None without one.

    DataError for whatever can be told of a bad file without the audit.
    """
    if params.judgements is None:
        return None
    file = RowFile.open(params.judgements, _SETTING)
    _verdicts(file)
    return files_digest(file.path.parent, [file.path])


def read_judgements(path: str, pairs: pa.Table) -> Judgements:
    """Verdicts (wrong, clean, unclear) by pair, from a file with query_id, doc_id and verdict; an empty one is none.

    pairs: query_id and doc_id of the audited ones.  DataError for a missing column, another word, a pair that was not
    audited or that is judged both ways, and a file without any verdict.
    """
    file = RowFile.open(path, _SETTING)
    found = _verdicts(file)
    known = set(pair_ids(pairs))
    if unknown := {pair: number for pair, (_, number) in found.items() if pair not in known}:
        raise DataError(_unknown_pairs(file, unknown))
    return {pair: verdict for pair, (verdict, _) in found.items()}


def recalibrated(
    pairs: pa.Table, judgements: Judgements, *, threshold: float, rate: float, confidence: float
) -> tuple[pa.Table, Recalibration]:
    """The pairs with the chances and verdicts that judgements by hand give their scores; judged pairs get theirs.

    pairs: query_id, doc_id, score, verdict, p_clean, by_hand; the last three are made anew.  p_clean is 0 or 1 where a
    person judged, and nowhere else.  threshold: least probability of being clean that a clean pair has.
    rate: what the noise rate was taken for.  ConfigError for a threshold that is no probability; DataError where the
    judgements do not tell a threshold.
    """
    if not 0 < threshold < 1:
        raise ConfigError(f"detect.threshold is a probability between 0 and 1 when pairs are judged, not {threshold}")
    decided = {pair: verdict for pair, verdict in judgements.items() if verdict != "unclear"}
    if not decided:
        raise DataError("no pair is judged wrong or clean: judge at least one of either kind, better twenty")
    place = {pair: row for row, pair in enumerate(pair_ids(pairs))}
    rows = np.array([place[pair] for pair in decided])
    judged_wrong = np.array([verdict == "wrong" for verdict in decided.values()])
    scores = pairs["score"].to_numpy().astype(np.float64)
    found = recalibrate(scores, rows, judged_wrong, threshold, confidence)
    p_clean = np.clip((1 - found.p_wrong(scores)).astype(np.float32), _LEAST_CHANCE, _LARGEST_CHANCE)
    is_wrong = p_clean < threshold
    p_clean[rows], is_wrong[rows] = ~judged_wrong, judged_wrong
    by_hand = np.zeros(len(scores), bool)
    by_hand[rows] = True
    was_wrong = pc.equal(pairs["verdict"], "wrong").to_numpy()
    verdict = pc.if_else(pa.array(is_wrong), "wrong", "clean")
    for name, column in {"p_clean": pa.array(p_clean), "verdict": verdict, "by_hand": pa.array(by_hand)}.items():
        pairs = pairs.set_column(pairs.schema.get_field_index(name), name, column)
    return pairs, Recalibration(
        *(found.rate, found.low, found.high),
        rate_before=rate,
        confidence=confidence,
        threshold=found.threshold,
        flagged=int(is_wrong.sum()),
        flagged_before=int(was_wrong.sum()),
        judged=len(decided),
        unclear=len(judgements) - len(decided),
        agreed=float((was_wrong[rows] == judged_wrong).mean()),
    )


def how_many(rate: float, error: float, confidence: float, pairs: int) -> str:
    """How many of the pairs to judge by hand to know the noise rate, in words.  ConfigError for impossible wishes."""
    if not 0 < confidence < 1:
        raise ConfigError(f"the confidence of a noise rate lies between 0 and 1, such as 0.95, not {confidence}")
    count = pairs_to_judge(rate, error, confidence, pairs)
    number = f"all {pairs:,} pairs" if count >= pairs else f"{count:,} pairs"
    return f"To know the rate within ± {100 * error:g} points at {100 * confidence:g} %: judge {number}"


def _verdicts(file: RowFile) -> dict[Pair, tuple[Verdict, int]]:
    """The verdict on each judged pair, and the row where it stands first."""
    if missing := [name for name in _COLUMNS if name not in file.columns]:
        raise DataError(f"{file.path} lacks the column {', '.join(missing)}; it has {', '.join(file.columns)}")
    found: dict[Pair, tuple[Verdict, int]] = {}
    for number, row in file.rows(_COLUMNS):
        pair = _id(row, "query_id", file, number), _id(row, "doc_id", file, number)
        verdict = _verdict(row["verdict"], file, number)
        if verdict is None:
            continue
        first, at = found.setdefault(pair, (verdict, number))
        if first != verdict:
            raise DataError(
                f"{file.place} {number}: query {pair[0]!r} with document {pair[1]!r} is judged {verdict}, but "
                f"{first} at {at}: keep one of the two"
            )
    if not found:
        raise DataError(f"{file.path} holds no verdict: put one of {', '.join(_VERDICTS)} into the column verdict")
    return found


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
