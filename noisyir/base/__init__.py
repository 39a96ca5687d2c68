"""The ground of all rooms: errors, settings, variants, artifacts' contracts, parts of pages; no subject of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def during(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Set the variable, yield its value, and reset it."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of the process's environment, and restore it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
