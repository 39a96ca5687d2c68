"""What should make one doubt a trained model: that it is as good as its start, or worse than BM25."""

from collections.abc import Mapping, Sequence
from typing import Any

from noisyir.report.cells import signed

Row = Mapping[str, Any]
_START, _LEXICAL = "zero_shot", "bm25"


def doubts(rows: Sequence[Row], system: str | None = None, *, unchanged: bool = False) -> list[str]:
    """A sentence for each doubt about a system of a comparison (COMPARISON), on its first measure and split.

    system: whose model was kept; None: the last one, which is on trial.  unchanged: its weights are those of its start.
    Nothing is said of a system that is not there, or has no start beside it, as readers have not.
    """
    system = system or (str(rows[-1]["system"]) if rows else "")
    means = {row["system"]: row for row in rows if (row["measure"], row["split"]) == _first(rows)}
    if system not in means or system in (_START, _LEXICAL):
        return []
    said = []
    if unchanged or (_START in means and not _is_better(rows, system, _START)):
        said.append(_learned_nothing(rows, system, unchanged=unchanged))
    if _LEXICAL in means and means[system]["mean"] < means[_LEXICAL]["mean"]:
        said.append(
            f"{system} is worse than BM25, which needs no training: {_against(rows, system, _LEXICAL)}. Search with "
            "BM25, or with both; a stronger start (model.backbone=transformer) or more pairs may change that."
        )
    return said


def _learned_nothing(rows: Sequence[Row], system: str, *, unchanged: bool) -> str:
    how = "has the weights of its start: it learned nothing" if unchanged else "is not better than the untrained model"
    measured = f": {_against(rows, system, _START)}" if any(row["system"] == _START for row in rows) else ""
    return (
        f"{system} {how}{measured}. See whether its loss falls (the report's section Training): where it does not, "
        "leave out train.learning_rate, which is then chosen by the backbone, or raise train.epochs; where it does, "
        "audit the pairs (noisyir audit)."
    )


def _first(rows: Sequence[Row]) -> tuple[str, str]:
    return rows[0]["measure"], rows[0]["split"]


def _test(rows: Sequence[Row], system: str, other: str) -> Row | None:
    """The row that tests a system against another; None where only their means are known."""
    found = (row for row in rows if (row["system"], row["baseline"]) == (system, other))
    return next((row for row in found if (row["measure"], row["split"]) == _first(rows)), None)


def _is_better(rows: Sequence[Row], system: str, other: str) -> bool:
    """Beyond chance, by the interval; by the means where there is no test."""
    if (test := _test(rows, system, other)) is not None:
        return bool(test["difference_low"] > 0)
    return bool(_mean(rows, system) > _mean(rows, other))


def _mean(rows: Sequence[Row], system: str) -> float:
    means = {row["system"]: row["mean"] for row in rows if (row["measure"], row["split"]) == _first(rows)}
    return float(means[system])


def _against(rows: Sequence[Row], system: str, other: str) -> str:
    measure, split = _first(rows)
    said = f"{measure} {_mean(rows, system):.3f} against {_mean(rows, other):.3f} ({split})"
    if (test := _test(rows, system, other)) is None:
        return said
    interval = f"[{signed(test['difference_low'])}, {signed(test['difference_high'])}]"
    return f"{said}, difference {signed(test['difference'])} {interval}"
