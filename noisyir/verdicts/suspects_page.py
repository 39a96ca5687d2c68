"""Candidates for negatives that are likely relevant: why, in one sentence with numbers, and as data of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.verdicts.reasons import apart

_NEARLY_SAME = 0.6  # two texts of a hundred different words that differ in twenty overlap by 0.67
_SOME = 0.3
_CLOSE = 0.8  # cosine


@dataclass(frozen=True)
class Verdict:
    """One judge's on a candidate that it does not keep; above `bound` goes."""

    judge: str
    score: float
    bound: float


@dataclass(frozen=True)
class Suspicion:
    """What is known of a candidate; None where nobody computed it.

    score, positive_score: of the query with it, and with the query's positive, by the model that mines.
    similarity: cosine of it and the positive.  overlap: the share of their words that both have.
    """

    score: float | None
    positive_score: float | None
    similarity: float | None
    overlap: float | None
    against: Sequence[Verdict]
    kept_by: Sequence[str]


@dataclass(frozen=True)
class Suspects:
    """What the page tells of candidates: AUDIT_NEGATIVES, and AUDIT_JUDGES."""

    rows: pa.Table
    judges: pa.Table

    @property
    def named(self) -> pa.Array:
        """Ids of the documents that the page shows."""
        columns = [self.rows[name].combine_chunks() for name in ("doc_id", "positive")]
        return pa.concat_arrays(columns).drop_null()

    def sure(self, least: float) -> pa.Table:
        """The rows of at least this confidence that no judge keeps."""
        confident = pc.greater_equal(self.rows["confidence"], pa.scalar(least, pa.float32()))
        return self.rows.filter(pc.and_(confident, pc.equal(pc.list_value_length(self.rows["kept_by"]), 0)))


def suspicion(known: Suspicion) -> str:
    """Scores beside the positive's, likeness to it, and who does not keep the candidate."""
    found = [_scored(known), _like_the_positive(known), _judged(known)]
    text = "; ".join(part for part in found if part)
    return f"{text[0].upper()}{text[1:]}."


def _scored(known: Suspicion) -> str:
    if known.score is None or known.positive_score is None:
        return ""
    own, positive = apart(known.score, known.positive_score)
    if own == positive:
        return f"scores {known.score:.2f}, as its positive does"
    return f"scores {own}, {'above' if known.score > known.positive_score else 'below'} its positive's {positive}"


def _like_the_positive(known: Suspicion) -> str:
    share = known.overlap or 0.0
    if share == 1:
        return "the same words as the positive"
    if share >= _NEARLY_SAME:
        return f"nearly the same words as the positive ({share:.0%} shared)"
    if share >= _SOME:
        return f"{share:.0%} of the words shared with the positive"
    if known.similarity is not None and known.similarity >= _CLOSE:
        return f"close to the positive (cosine {known.similarity:.2f})"
    return ""


def _judged(known: Suspicion) -> str:
    against = []
    for verdict in known.against:
        score, bound = apart(verdict.score, verdict.bound)
        against.append(f"{verdict.judge} ({score}, bound {bound})")
    kept = f", kept by {_and(known.kept_by)}" if known.kept_by else ""
    return f"not kept by {_and(against)}{kept}"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def judge_rows(judges: pa.Table) -> list[dict[str, Any]]:
    """What each judge did, then all of them together where there are several."""
    rows: list[dict[str, Any]] = judges.to_pylist()
    alone = [row for row in rows if row["judge"] is not None]
    together = [row for row in rows if row["judge"] is None]
    return [*alone, *(together if len(alone) > 1 else [])]


def suspects_data(suspects: Suspects, number: Mapping[str, int], text_chars: int) -> dict[str, Any]:
    """What audit_negatives.js reads: columns of rows that name documents by number."""
    rows = suspects.rows
    data = {name: rows[name].to_pylist() for name in ("query_id", "rank", "used", "reason", "kept_by")}
    for name in ("score", "positive_score", "positive_similarity", "overlap", "confidence"):
        data[name] = [_brief(value) for value in rows[name].to_pylist()]
    data["query"] = pc.utf8_slice_codeunits(rows["query"], 0, text_chars).to_pylist()
    data["document"] = [number[doc_id] for doc_id in rows["doc_id"].to_pylist()]
    data["positive"] = [number.get(doc_id) for doc_id in rows["positive"].to_pylist()]
    verdicts = zip(*(rows[name].to_pylist() for name in ("judges", "judge_scores", "judge_bounds")), strict=True)
    data["judges"] = [
        [[judge, _brief(score), _brief(bound)] for judge, score, bound in zip(*lists, strict=True)]
        for lists in verdicts
    ]
    return data


def _brief(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
