"""The columns of an audit, declared once for schema, page, audit.csv and docs/reference/audit_files.md."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from noisyir.base.artifact import BOOL, F32, FLOATS, I32, PAIR_KEY, STRING, STRINGS, Artifact

FLAGGED = ("wrong", "suspect")
"""Verdicts of flagged pairs."""
ROW = "row"
"""A column of the written files alone: an audit does not depend on the order of rows."""


@dataclass(frozen=True)
class AuditColumn:
    """One column.

    Attributes:
        heading: Heading in the page's table; empty if it has no column there.
        place: Place in that table, from 0.
        on_page: Whether the page's script gets the values unchanged.
        compute: Its values from the other columns; None if the stage joins them.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    heading: str = ""
    place: int = 100
    on_page: bool = False
    compute: Callable[[pa.Table], pa.Array | pa.ChunkedArray] | None = None

    @property
    def is_number(self) -> bool:
        """Whether it is set and sorted as a number."""
        return bool(pa.types.is_integer(self.type) or pa.types.is_floating(self.type))


# People's verdicts override the machine's, which the columns machine_ keep.
COLUMNS = (
    AuditColumn("query_id", STRING, "the query", on_page=True),
    AuditColumn("doc_id", STRING, "the document of the pair"),
    AuditColumn("source", STRING, "where the pair comes from, if the data says", True, "source", 5, on_page=True),
    AuditColumn("query", STRING, "text of the query", heading="query", place=6),
    AuditColumn("document", STRING, "text of the document", heading="document", place=7),
    AuditColumn(
        "suspicion", F32, "the share of the other pairs that are less suspect", False, "place", 1, on_page=True
    ),
    AuditColumn(
        "verdict", STRING,
        "`wrong` or `clean` by people or by what their judgements teach; `suspect` if made-up pairs, "
        "or an assumption, support a flag; null: not known",
        True, "verdict", 0, on_page=True,
    ),
    AuditColumn("p_clean", F32, "chance that the pair is right; null: not known", True, "p(clean)", 1, on_page=True),
    AuditColumn(
        "rests_on", STRING,
        "the source of `p_clean`: `hand`, `judgements` of other pairs, or the kind of made-up pairs that is assumed",
        True,
    ),
    AuditColumn("score", F32, "the detectors' score; a higher one is more suspicious", on_page=True),
    AuditColumn(
        "rank", I32, "the document's rank for the query, by the first detector that searches; null below `depth` (100)",
        True, on_page=True,
    ),
    AuditColumn("similarity", F32, "similarity of the two, by the same detector", True, on_page=True),
    AuditColumn("better", STRINGS, "documents that fit the query better"),
    AuditColumn("better_similarities", FLOATS, "their similarities"),
    AuditColumn("replacement", STRING, "the document that a wrong pair would be given instead", True),
    AuditColumn("duplicates", I32, "other documents of the same words", on_page=True),
    AuditColumn("reason", STRING, "the strongest evidence, in a sentence with numbers", on_page=True),
    AuditColumn("judged", STRING, "people's verdict: `clean`, `wrong` or `unclear`; null: not judged", True),
    AuditColumn("accepted", BOOL, "whether a person named the replacement"),
    AuditColumn("relabel", BOOL, "whether `--apply` puts the replacement in the document's place"),
    AuditColumn("machine_verdict", STRING, "noisyir's verdict, if a person's replaces it", True),
    AuditColumn("machine_p_clean", F32, "noisyir's chance", True),
    AuditColumn("machine_replacement", STRING, "noisyir's replacement", True),
)  # fmt: skip
AUDIT = Artifact(
    "audit",
    3,
    {column.name: column.type for column in COLUMNS},
    PAIR_KEY,
    nullable=tuple(column.name for column in COLUMNS if column.nullable),
)


def computed(pairs: pa.Table) -> pa.Table:
    """The pairs with the computed columns, in the order of the audit."""
    for column in COLUMNS:
        if column.compute:
            pairs = pairs.append_column(column.name, column.compute(pairs))
    return pairs.select([column.name for column in COLUMNS])


def in_table(condition: str = "") -> list[tuple[str, str, str]]:
    """(name, heading, text or num) of the page's columns, in order; condition: the assumption behind p_clean."""
    shown = sorted((column for column in COLUMNS if column.heading), key=lambda column: column.place)
    heading = {column.name: column.heading for column in shown} | {"p_clean": f"p(clean){condition}"}
    return [(column.name, heading[column.name], "num" if column.is_number else "text") for column in shown]
