"""A comparison as rows of text: the one table that the terminal, Markdown and HTML all show."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]


def summary_rows(comparison: pa.Table) -> list[list[str]]:
    """Systems in rows, measures in columns as `mean [low, high]`, headings first.

    A measure's heading names its split when the comparison has several.
    """
    rows = comparison.to_pylist()
    columns = list(dict.fromkeys((row["measure"], row["split"]) for row in rows))
    several = len({split for _, split in columns}) > 1
    # Some systems have more than one row: one for each system that they were compared with, the mean being the same.
    cells = {(row["system"], row["measure"], row["split"]): _mean(row) for row in rows}
    table = [["system", *(f"{measure} ({split})" if several else measure for measure, split in columns)]]
    for system in dict.fromkeys(row["system"] for row in rows):
        table.append([system, *(cells[system, measure, split] for measure, split in columns)])
    return table


def difference_rows(comparison: pa.Table) -> list[list[str]]:
    """One row a test, headings first: the difference to the other system, its interval, Holm p, wins and losses."""
    headings = ["system", "against", "measure", "split", "difference", "interval", "p (Holm)", "wins", "losses"]
    rows = [row for row in comparison.to_pylist() if row["baseline"] is not None]
    return [headings] + [
        [
            row["system"],
            row["baseline"],
            row["measure"],
            row["split"],
            signed(row["difference"]),
            f"[{signed(row['difference_low'])}, {signed(row['difference_high'])}]",
            p_value(row["p_holm"]),
            f"{row['wins']:,}",
            f"{row['losses']:,}",
        ]
        for row in rows
    ]


def markdown_table(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Rows as a Markdown table; the first is its heading, the first `left` columns are aligned to the left."""
    head, *body = ([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    rule = [":--" if place < left else "--:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body)) + "\n"


def signed(value: float) -> str:
    """A difference to three places with its sign, a true minus among them; 0.000 has none."""
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def p_value(value: float) -> str:
    """A p-value to three places, never as zero."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _mean(row: Row) -> str:
    return f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
