"""The audit page's part on candidates for negatives that are likely relevant."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = tuple[str, str, str]  # key, heading, kind of value

_COLUMNS: list[Column] = [
    ("judges", "not kept by", "text"),
    ("confidence", "confidence", "num"),
    ("score", "score", "num"),
    ("positive_score", "positive's", "num"),
    ("used", "drawn", "text"),
    ("query", "query", "text"),
    ("positive", "its positive", "text"),
    ("document", "candidate", "text"),
]


@dataclass(frozen=True)
class Suspects:
    """Candidates on the page: AUDIT_NEGATIVES and AUDIT_JUDGES."""

    rows: pa.Table
    judges: pa.Table

    @property
    def named(self) -> pa.Array:
        """Ids of the documents that the page shows."""
        columns = [self.rows[name].combine_chunks() for name in ("doc_id", "positive")]
        return pa.concat_arrays(columns).drop_null()

    def sure(self, least: float) -> pa.Table:
        """The rows with at least this confidence that no judge keeps."""
        confident = pc.greater_equal(self.rows["confidence"], pa.scalar(least, pa.float32()))
        return self.rows.filter(pc.and_(confident, pc.equal(pc.list_value_length(self.rows["kept_by"]), 0)))

    def summary(self, promote: float) -> dict[str, Any]:
        """Values of the template: judges, several also together, and counts."""
        rows = sorted(self.judges.to_pylist(), key=lambda row: row["judge"] is None)
        judges = rows if len(rows) > 2 else rows[:1]
        return {
            "judges": judges,
            "together": judges[-1],
            "suspects": self.rows.num_rows,
            "promoted": self.sure(promote).num_rows,
            "suspect_columns": shown_columns(_COLUMNS, self.rows),
        }

    def for_script(self, number: Mapping[str, int], text_chars: int) -> dict[str, Any]:
        """Data of audit_negatives.js: columns of rows that name documents by number."""
        rows = self.rows
        numbers = ("score", "positive_score", "positive_similarity", "overlap", "confidence")
        data = values_for_script(rows, ("query_id", "rank", "used", "reason", "kept_by"), numbers)
        data["query"] = pc.utf8_slice_codeunits(rows["query"], 0, text_chars).to_pylist()
        data["document"] = [number[doc_id] for doc_id in rows["doc_id"].to_pylist()]
        data["positive"] = [number.get(doc_id) for doc_id in rows["positive"].to_pylist()]
        judges, scores, bounds = (rows[name].to_pylist() for name in ("judges", "judge_scores", "judge_bounds"))
        data["judges"] = [
            [list(said) for said in zip(names, brief(own), brief(most), strict=True)]
            for names, own, most in zip(judges, scores, bounds, strict=True)
        ]
        return data


def shown_columns(columns: Iterable[Column], rows: pa.Table) -> list[Column]:
    """The columns with any value, and the document, which scripts look up by number."""
    return [column for column in columns if column[0] == "document" or rows[column[0]].null_count < rows.num_rows]


def values_for_script(rows: pa.Table, plain: Iterable[str], numbers: Iterable[str]) -> dict[str, list[Any]]:
    """These columns as lists, numbers to four digits."""
    return {name: rows[name].to_pylist() for name in plain} | {name: brief(rows[name].to_pylist()) for name in numbers}


def brief(values: Iterable[float | None]) -> list[float | None]:
    """The numbers to four digits; null stays null."""
    return [None if value is None else float(f"{value:.4g}") for value in values]
