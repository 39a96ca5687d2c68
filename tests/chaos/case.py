"""What one trial of a campaign came to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """fault: what was not as promised, in a sentence; None where all was.  said: what a user was told, where known."""

    name: str
    fault: str | None
    said: str = ""
