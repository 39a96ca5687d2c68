"""What one trial of a campaign came to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """fault: what was not as promised, in a sentence; None where all was."""

    name: str
    fault: str | None
