"""Context variables that have a value during a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

V = TypeVar("V")


@contextmanager
def during(variable: ContextVar[Any], value: V) -> Iterator[V]:
    """Set the variable for a block, which gets the value, and then set it back."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
