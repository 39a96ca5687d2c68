"""A comparison as rows of text, for terminal, Markdown and HTML."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from noisyir.base.pages.cells import NONE, difference_cells, number, p_value, signed
from noisyir.evaluation.pages.settings import PublishedParams

_HEADINGS = ["tried on held-out pairs", "nDCG@10", "less plain", "corrected p", "chosen"]


def summary_rows(comparison: pa.Table) -> list[list[str]]:
    """Systems in rows, measures in columns as `mean [low, high]`, headings first; several splits are named."""
    rows = comparison.to_pylist()
    columns = list(dict.fromkeys((row["measure"], row["split"]) for row in rows))
    several = len({split for _, split in columns}) > 1
    # a system has a row for each one that it was compared with, always with the same mean
    cells = {
        (row["system"], row["measure"], row["split"]): f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        for row in rows
    }
    table = [["system", *(f"{measure} ({split})" if several else measure for measure, split in columns)]]
    for system in dict.fromkeys(row["system"] for row in rows):
        table.append([system, *(cells[system, measure, split] for measure, split in columns)])
    return table


def difference_rows(comparison: pa.Table) -> list[list[str]]:
    """One row a test, headings first."""
    headings = ["system", "against", "measure", "split", "difference", "interval", "p (Holm)", "wins", "losses"]
    rows = [row for row in comparison.to_pylist() if row["baseline"] is not None]
    return [headings] + [
        [
            row["system"],
            row["baseline"],
            row["measure"],
            row["split"],
            *difference_cells(row),
            f"{row['wins']:,}",
            f"{row['losses']:,}",
        ]
        for row in rows
    ]


def published_rows(comparison: pa.Table, published: Sequence[PublishedParams]) -> list[list[str]]:
    """A row for each published number, headings first; a dash if the run did not measure it."""
    measured = {(row["system"], row["split"], row["measure"]): row["mean"] for row in comparison.to_pylist()}
    rows = []
    for entry in published:
        ours = number(measured.get((entry.system, entry.split, entry.measure)))
        rows.append([entry.system, entry.split, entry.measure, ours, number(entry.value), entry.source])
    return [["system", "split", "measure", "measured", "published", "source"], *rows] if rows else []


def trial_rows(trials: pa.Table) -> list[list[str]]:
    """One row a method (TRIALS), headings first."""
    rows = []
    for row in trials.to_pylist():
        less, corrected = NONE, NONE
        if row["difference"] is not None:
            less = f"{signed(row['difference'])} [{signed(row['low'])}, {signed(row['high'])}]"
            corrected = p_value(row["p_holm"])
        rows.append([row["method"], number(row["mean"]), less, corrected, "yes" if row["chosen"] else ""])
    return [_HEADINGS, *rows]


def told_trials(trials: pa.Table) -> Iterator[str]:
    """Sentences on the methods tried and the choice."""
    rows = trials.to_pylist()
    tried = ", ".join(f"{row['method']} {row['mean']:.3f}" for row in rows)
    yield f"Tried on {rows[0]['queries']:,} held-out queries, {rows[0]['seeds']} seeds, nDCG@10: {tried}."
    (chosen,) = (row for row in rows if row["chosen"])
    if chosen["difference"] is None:
        yield f"Chosen: {chosen['method']}, for nothing was better by the test."
    else:
        low, high = chosen["low"], chosen["high"]
        yield f"Chosen: {chosen['method']}, better than plain by {chosen['difference']:.3f} [{low:.3f}, {high:.3f}]."
