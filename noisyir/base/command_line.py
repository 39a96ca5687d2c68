"""The words of the command that runs, for its record and for advice that can be pasted."""

from collections.abc import Sequence
from contextvars import ContextVar

typed_words: ContextVar[Sequence[str]] = ContextVar("typed_words", default=())
"""What follows `noisyir` on the command line; empty in Python."""
