"""What a method tried before it chose how to train, in rows and in words."""

from collections.abc import Iterator

import pyarrow as pa

from noisyir.report.cells import NONE, number, p_value, signed

_HEADINGS = ["tried on held-out pairs", "nDCG@10", "less plain", "corrected p", "chosen"]


def trial_rows(trials: pa.Table) -> list[list[str]]:
    """One row a way of training (TRIALS), headings first."""
    rows = []
    for row in trials.to_pylist():
        less, corrected = NONE, NONE
        if row["difference"] is not None:
            less = f"{signed(row['difference'])} [{signed(row['low'])}, {signed(row['high'])}]"
            corrected = p_value(row["p_holm"])
        rows.append([row["method"], number(row["mean"]), less, corrected, "yes" if row["chosen"] else ""])
    return [_HEADINGS, *rows]


def told_trials(trials: pa.Table) -> Iterator[str]:
    """What was tried, by how much each way differs from plain training, and what was chosen."""
    rows = trials.to_pylist()
    tried = ", ".join(f"{row['method']} {row['mean']:.3f}" for row in rows)
    yield f"Tried on {rows[0]['queries']:,} held-out queries, {rows[0]['seeds']} seeds, nDCG@10: {tried}."
    (chosen,) = (row for row in rows if row["chosen"])
    if chosen["difference"] is None:
        yield f"Chosen: {chosen['method']}, for nothing was better by the test."
    else:
        low, high = chosen["low"], chosen["high"]
        yield f"Chosen: {chosen['method']}, better than plain by {chosen['difference']:.3f} [{low:.3f}, {high:.3f}]."
