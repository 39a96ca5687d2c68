"""Verdicts of people, read from files and settled into one a pair; agreement of judges."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from noisyir.base.errors import DataError
from noisyir.data.row_files import RowFile
from noisyir.data.spelt import number_in
from noisyir.detection.rate import Interval, normal_quantile, wilson
from noisyir.detection.spreadsheets import before_a_spreadsheet, changed_ids, unguard
from noisyir.engine.provenance import files_digest
from noisyir.engine.tables import pair_ids

Pair: TypeAlias = tuple[str, str]  # query_id, doc_id
Verdict = Literal["wrong", "clean", "unclear"]
T = TypeVar("T")

_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_WORDS: Mapping[str, Verdict] = {**{word: word for word in _VERDICTS}, "right": "clean", "unsure": "unclear"}
_COLUMNS = ("query_id", "doc_id", "verdict")
_MORE = ("judge", "weight", "replacement", "at", "p_wrong")
_SETTING = "audit.judgements"
BY_MODEL = "model:"  # begins the names of judges that are models
_SHOWN = 3  # examples in a message


@dataclass(frozen=True)
class HumanJudgement:
    """A judgement of a pair.

    Attributes:
        weight: Number of pairs that it represents if drawn at random; None if chosen in another way.
        replacement: The document that the query gets instead, if a judge named one and the verdict is wrong.
    """

    verdict: Verdict
    weight: float | None = None
    replacement: str | None = None

    @property
    def tells_of_others(self) -> bool:
        """Whether it counts towards the noise rate and the border: random and decided."""
        return self.weight is not None and self.verdict != "unclear"


Judgements: TypeAlias = Mapping[Pair, HumanJudgement]


class _Said(NamedTuple):
    """One row: a judge's verdict on a pair, with its time and place.

    Attributes:
        verdict: None takes back the judge's earlier verdict.
        p_wrong: A model's probability, if it gave one.
    """

    judge: str
    verdict: Verdict | None
    weight: float | None
    replacement: str | None
    at: float | None
    place: str
    p_wrong: float | None = None


_ByPair: TypeAlias = dict[Pair, list[_Said]]


def judgements_digest(files: Sequence[str]) -> str | None:
    """A hash of files of judgements, part of a stage's key; None without files."""
    if not files:
        return None
    given_judgements(files)
    paths = [RowFile.open(path, _SETTING).path for path in files]
    return " ".join(sorted(files_digest(path.parent, [path]) for path in paths))


def given_judgements(paths: Sequence[str]) -> Judgements:
    """The verdicts in these files by pair, whatever pairs were audited.

    Each row has query_id, doc_id and verdict (wrong, clean, unclear, or right and unsure for the last two), and perhaps
    judge, weight, replacement and at.  An empty verdict counts for nothing, and with a time it takes back the same
    judge's earlier one.  The majority of judges counts, and a tie is unclear.

    Raises:
        DataError: If a column is missing, a value is wrong, a judge contradicts herself without times, or a file holds
            no verdict.
    """
    return _all_settled(_all_said(paths))


def read_judgements(paths: Sequence[str], pairs: pa.Table, pooled: Collection[str] = ()) -> Judgements:
    """As `given_judgements`, on audited pairs and on any document of the queries `pooled`.

    Raises:
        DataError: As `given_judgements`, or if a pair is neither.
    """
    said = _all_said(paths)
    if (known := rows_of(said, pairs)).keys() != said.keys():
        said = {meant: rows for pair, rows in said.items() for meant in [before_a_spreadsheet(pair, pairs, known)]}
        known = rows_of(said, pairs)
    unknown = {pair: rows[0].place for pair, rows in said.items() if pair not in known and pair[0] not in pooled}
    if unknown:
        raise DataError(_unknown_pairs(unknown, len(said), paths))
    return _all_settled(said)


def rows_of(judged: Collection[Pair], pairs: pa.Table) -> dict[Pair, int]:
    """The row of each judged pair among the pairs."""
    queries = pa.array({query for query, _ in judged}, pairs["query_id"].type)
    rows = np.flatnonzero(pc.is_in(pairs["query_id"], value_set=queries).to_numpy())
    place = dict(zip(pair_ids(pairs.select(["query_id", "doc_id"]).take(rows)), rows.tolist(), strict=True))
    return {pair: place[pair] for pair in judged if pair in place}


class MachineAnswers(NamedTuple):
    """The answers of one model; `p_wrong` and `weights` only on pairs that have them."""

    judge: str
    verdicts: Mapping[Pair, Verdict]
    p_wrong: Mapping[Pair, float]
    weights: Mapping[Pair, float]


def machine_answers(file: RowFile) -> MachineAnswers | None:
    """The answers in a file of a judge named `model:...`; None if it has none.

    Raises:
        DataError: As `given_judgements`, or if answers are by several judges.
    """
    said: _ByPair = {}
    for pair, row in _rows(file):
        if row.judge.startswith(BY_MODEL):
            said.setdefault(pair, []).append(row)
    judges = sorted({row.judge for rows in said.values() for row in rows})
    if len(judges) > 1:
        raise DataError("detection.several_model_judges", file=file.path, judges=" and of ".join(judges[:_SHOWN]))
    last = {pair: _last_word(pair, rows) for pair, rows in said.items()}
    words = {pair: row.verdict for pair, row in last.items() if row.verdict is not None}
    chances = {pair: row.p_wrong for pair, row in last.items() if row.p_wrong is not None}
    weights = {pair: row.weight for pair, row in last.items() if row.weight is not None}
    return MachineAnswers(judges[0], words, chances, weights) if judges else None


def drawn_at_random(judgements: Judgements) -> int:
    """The number of pairs that were drawn at random and judged wrong or clean."""
    return sum(judged.tells_of_others for judged in judgements.values())


# Settling -------------------------------------------------------------------------------------------------------


def _all_settled(said: _ByPair) -> Judgements:
    found = {pair: _settled(pair, rows) for pair, rows in said.items()}
    return {pair: judged for pair, judged in found.items() if judged is not None}


def _settled(pair: Pair, said: Sequence[_Said]) -> HumanJudgement | None:
    """The most frequent of the judges' last words, unclear on a tie; None without any."""
    by_judge: dict[str, list[_Said]] = {}
    for row in said:
        by_judge.setdefault(row.judge, []).append(row)
    words = [_last_word(pair, rows) for rows in by_judge.values()]
    verdicts = [word.verdict for word in words if word.verdict is not None]
    if not verdicts:
        return None
    verdict = _most_frequent(verdicts) or "unclear"
    named = [word.replacement for word in words if word.verdict == "wrong" and word.replacement]
    weights = [row.weight for row in said if row.weight is not None]
    replacement = _most_frequent(named) if verdict == "wrong" else None
    return HumanJudgement(verdict, max(weights, default=None), replacement)


def _last_word(pair: Pair, said: Sequence[_Said]) -> _Said:
    """The last word of one judge.

    Raises:
        DataError: If two words differ and no time orders them.
    """
    ordered = sorted(said, key=lambda row: -math.inf if row.at is None else row.at)
    last = ordered[-1]
    other = next((row for row in ordered if row.verdict != last.verdict and row.at in (None, last.at)), None)
    if other is None:
        return last
    first, second = sorted((other, last), key=said.index)
    who = f" by {last.judge}" if last.judge else ""
    raise DataError(
        "detection.contradicting_verdicts",
        place=second.place,
        query_id=pair[0],
        doc_id=pair[1],
        verdict=second.verdict,
        who=who,
        other_verdict=first.verdict,
        other_place=first.place,
    )


def _most_frequent(values: Sequence[T]) -> T | None:
    """The most frequent value; None without values or on a tie."""
    found = Counter(values).most_common(2)
    return found[0][0] if found and (len(found) == 1 or found[0][1] > found[1][1]) else None


# Reading --------------------------------------------------------------------------------------------------------


def _all_said(paths: Sequence[str]) -> _ByPair:
    found: _ByPair = {}
    for path in paths:
        file = RowFile.open(path, _SETTING)
        count = 0
        for pair, said in _rows(file):
            if not said.judge.startswith(BY_MODEL):
                found.setdefault(pair, []).append(said)
                count += 1
        if not count:
            raise DataError("detection.no_human_verdicts", file=file.path, verdicts="right, wrong or unsure")
    return found


def pairs_with_verdicts(path: Path, *, unjudged: bool = False) -> set[Pair]:
    """The pairs of the rows of this file that have a verdict, or of all its rows if `unjudged` and none has one."""
    file = RowFile.open(str(path), _SETTING)
    names, text = [name for name in _COLUMNS if name in file.columns], unguard if path.suffix == ".csv" else str
    rows = [row for _, row in file.rows(names, names)] if names else []
    said = [row for row in rows if str(row.get("verdict") or "").strip()] or (rows if unjudged else [])
    return {(text(str(row.get("query_id"))), text(str(row.get("doc_id")))) for row in said}


def _rows(file: RowFile) -> Iterator[tuple[Pair, _Said]]:
    """The judgement of each row with a verdict."""
    if missing := [name for name in _COLUMNS if name not in file.columns]:
        raise DataError(
            "detection.missing_columns", file=file.path, missing=", ".join(missing), columns=", ".join(file.columns)
        )
    columns = [*_COLUMNS, *(name for name in _MORE if name in file.columns)]
    for number, row in file.rows(columns, (*_COLUMNS, *_MORE)):
        place = f"{file.place} {number}"
        pair = _id(row, "query_id", file, place), _id(row, "doc_id", file, place)
        verdict, at = _verdict(row["verdict"], place), _time(row, place)
        if verdict is not None or at is not None:
            replacement = None if row.get("replacement") in (None, "") else _id(row, "replacement", file, place)
            judge = str(row.get("judge") or "").strip()
            p_wrong = _chance(row.get("p_wrong"), place) if judge.startswith(BY_MODEL) else None
            yield pair, _Said(judge, verdict, _weight(row.get("weight"), place), replacement, at, place, p_wrong)


def _id(row: Mapping[str, Any], column: str, file: RowFile, place: str) -> str:
    value = row[column]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise DataError("detection.bad_id", place=place, column=column, value=value)
    return unguard(value) if file.suffix == ".csv" else value


def _verdict(value: object, place: str) -> Verdict | None:
    word = "" if value is None else str(value).strip().lower()
    if not word:
        return None
    if word not in _WORDS:
        raise DataError("detection.bad_verdict", place=place, verdicts="right, wrong or unsure", value=value)
    return _WORDS[word]


def _number(value: object) -> float | None:
    """A cell's number; None if it is empty, NaN if it holds none."""
    if value is None or not str(value).strip():
        return None
    return math.nan if (number := number_in(value)) is None else number


def _chance(value: object, place: str) -> float | None:
    if (number := _number(value)) is not None and not 0 <= number <= 1:
        raise DataError("detection.bad_probability", place=place, value=value)
    return number


def _weight(value: object, place: str) -> float | None:
    if (number := _number(value)) is not None and not number > 0:
        raise DataError("detection.bad_weight", place=place, value=value)
    return number


def _time(row: Mapping[str, Any], place: str) -> float | None:
    """Seconds since 1970; a time without a zone is taken as UTC."""
    value = row.get("at")
    if value is None or value == "":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    with DataError.wrapping("detection.bad_time", ValueError, place=place, value=value):
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _unknown_pairs(unknown: Mapping[Pair, str], judged: int, paths: Sequence[str]) -> str:
    if len(unknown) == judged:
        return (
            f"{' and '.join(paths)}: these judgements are of other pairs, for none of the {judged:,} is in this audit: "
            f"give judgements of this audit{changed_ids(unknown)}"
        )
    examples = [f"{query!r} with {doc!r} ({place})" for (query, doc), place in list(unknown.items())[:_SHOWN]]
    more = ", ..." if len(unknown) > _SHOWN else ""
    return (
        f"{len(unknown):,} of {judged:,} judged pairs are not in this audit: {', '.join(examples)}{more}; "
        f"give the audit that they were judged in, or remove them{changed_ids(unknown)}"
    )


def cohens_kappa(
    one: Bool[np.ndarray, " pair"], other: Bool[np.ndarray, " pair"], confidence: float = 0.95
) -> Interval | None:
    """Kappa of two judges on the same pairs, 1 if they agree and 0 by chance; None if both only ever gave one verdict.

    The interval is normal, with the large-sample error of kappa, cut at -1 and 1; under perfect agreement its lower end
    comes from Wilson's interval of the agreement.

    Raises:
        DataError: If there is no pair.

    Source: Cohen, Educational and Psychological Measurement, 1960; Fleiss, Cohen and Everitt, Psychological Bulletin,
    1969, Eq. 13 (error).
    """
    if not len(one):
        raise DataError("detection.judges_share_no_pairs")
    joint = np.array([[np.mean((one == a) & (other == b)) for b in (False, True)] for a in (False, True)])
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    observed, expected = float(np.trace(joint)), float(rows @ columns)
    if expected == 1.0:
        return None
    value = (observed - expected) / (1 - expected)
    on = sum(joint[k, k] * (1 - (rows[k] + columns[k]) * (1 - value)) ** 2 for k in range(2))
    off = sum(joint[k, 1 - k] * (columns[k] + rows[1 - k]) ** 2 for k in range(2)) * (1 - value) ** 2
    variance = (on + off - (value - expected * (1 - value)) ** 2) / (len(one) * (1 - expected) ** 2)
    half = normal_quantile(confidence) * math.sqrt(max(variance, 0.0))
    low = value - half if observed < 1 else (wilson(1.0, len(one), confidence)[0] - expected) / (1 - expected)
    return Interval(value, max(-1.0, low), min(1.0, value + half))
