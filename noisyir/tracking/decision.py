"""A decision on a registered model: a line of the log, and how it is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from noisyir.eval.promotion import Numbers

Verdict = Literal["promoted", "refused", "already champion", "rolled back"]


@dataclass(frozen=True)
class Decision:
    """What was decided on a registered model, and all that it rests on: a line of the log.

    version: what it is about; champion_before, champion_after: version numbers, None where there is no champion.
    versions: artifact key, digest, evaluation digest, experiment and seed of each version that was looked at.
    comparison: what makes it the same when it is asked for again; yard: what it was measured by.
    """

    model: str
    version: str
    verdict: Verdict
    reasons: tuple[str, ...]
    champion_before: str | None
    champion_after: str | None
    when: str
    who: str
    flow_run: str | None
    measure: str | None = None
    split: str | None = None
    numbers: Numbers | None = None
    thresholds: Mapping[str, Any] | None = None
    versions: Mapping[str, Mapping[str, str]] | None = None
    comparison: str | None = None
    yard: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """A line of the log."""
        numbers = record["numbers"]
        return cls(**{**record, "reasons": tuple(record["reasons"]), "numbers": numbers and Numbers(**numbers)})

    @property
    def summary(self) -> str:
        """The decision in one line."""
        found = self.numbers
        parts = [f"{self.model} v{self.version} {self.verdict}"]
        if found is not None:
            parts[0] += f": {self.measure} ({self.split}) {found.mean:.4f} over {found.queries:,} queries"
            if found.gain is not None:
                interval = f"[{found.low:+.4f}, {found.high:+.4f}] over {found.seeds} seed{'s'[: found.seeds > 1]}"
                parts.append(
                    f"champion v{self.champion_before} {found.champion_mean:.4f}, gain {found.gain:+.4f} {interval}"
                )
        return "; ".join([*parts, *self.reasons])

    def page(self) -> str:
        """The decision in Markdown, with all numbers and thresholds."""
        found = self.numbers
        rows: dict[str, Any] = {"who": self.who, "when": self.when, "flow run": self.flow_run}
        rows |= {"champion before": self.champion_before, "champion after": self.champion_after}
        if found is not None:
            rows |= {"measure": f"{self.measure} ({self.split})", **vars(found)}
        rows |= {f"threshold: {name}": value for name, value in (self.thresholds or {}).items()}
        cells = [f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None]
        reasons = [f"- {reason}" for reason in self.reasons]
        return "\n".join(
            [f"## {self.model} v{self.version}: {self.verdict}", "", *reasons, "", "| | |", "|---|---|", *cells]
        )


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
