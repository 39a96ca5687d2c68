"""Waiting for what another process holds: who holds it is told after five seconds and every minute.

It is given up after $NOISYIR_WAIT (`--wait 10m`), if that is set.
"""

import json
import logging
import math
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from noisyir.errors import ConfigError, StoreError

log = logging.getLogger("noisyir")

WAIT = "NOISYIR_WAIT"  # in the environment, so that the processes that this one begins give up, too
ASK_AGAIN = 0.2
_FIRST_WORD, _NEXT_WORD = 5.0, 60.0  # seconds of waiting after which it is told who holds a lock
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}

current_run: ContextVar[str | None] = ContextVar("current_run", default=None)
"""The id of the run that this code works for: who waits for one of its locks is told of it."""


def seconds_of(text: str) -> float:
    """The seconds that `90`, `90s`, `10m` or `1.5h` means.  ConfigError for anything else."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is not a time to wait: write it as 90s, 10m or 2h")
    return float(found[1]) * _UNITS[found[2]]


def about_this_process() -> dict[str, Any]:
    """What who holds something leaves for those that wait for it."""
    since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": since, "run": current_run.get()}


def holder_in(text: str | bytes) -> str:
    """Who left these words, for a person."""
    try:
        about = json.loads(text)
        run = f", for the run {about['run']}" if about.get("run") else ""
        return f"process {about['pid']} of {about['host']} since {about['since']}{run}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "other processes, or one that did not say"


class Patience:
    """How long something has been waited for, and who was told of it.

    holders: asked when it is told: by name of what is waited for, who holds it.
    wait: seconds after which it is given up; None: as $NOISYIR_WAIT says, else never.
    """

    def __init__(self, holders: Callable[[], Mapping[str, str]], wait: float | None) -> None:
        self._holders, self._began, self._told = holders, time.monotonic(), 0.0
        given = os.environ.get(WAIT)
        self._most = wait if wait is not None else seconds_of(given) if given else math.inf

    @property
    def waited(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def wait_a_moment(self, seconds: float | None = None) -> None:
        """Wait, and now and then tell for whom.  StoreError once it was long enough."""
        if self.waited >= self._most:
            raise StoreError(f"{self._state(' is locked by ', ' and ')}: waited {self._most:g} s for it, and gave up")
        if self.waited >= (self._told + _NEXT_WORD if self._told else _FIRST_WORD):
            log.warning("waiting for %s", self._state(", which is held by ", "; or for "))
            self._told = self.waited
        usual = ASK_AGAIN if self.waited > 1 else ASK_AGAIN / 20
        time.sleep(min(usual if seconds is None else seconds, max(0.0, self._most - self.waited)))

    def _state(self, held_by: str, between: str) -> str:
        return between.join(f"{name}{held_by}{holder}" for name, holder in self._holders().items())
