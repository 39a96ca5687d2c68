"""Papers' numbers beside the measured ones."""

from collections.abc import Sequence

import pyarrow as pa

from noisyir.report.settings import PublishedParams

NOT_MEASURED = "\N{EN DASH}"


def published_rows(comparison: pa.Table, published: Sequence[PublishedParams]) -> list[list[str]]:
    """A row for each published number, headings first; nothing where there are none.

    comparison: of the run; what it did not measure is a dash.
    """
    measured = {(row["system"], row["split"], row["measure"]): row["mean"] for row in comparison.to_pylist()}
    rows = []
    for entry in published:
        mean = measured.get((entry.system, entry.split, entry.measure))
        ours = NOT_MEASURED if mean is None else f"{mean:.3f}"
        rows.append([entry.system, entry.split, entry.measure, ours, f"{entry.value:.3f}", entry.source])
    return [["system", "split", "measure", "measured", "published", "source"], *rows] if rows else []
