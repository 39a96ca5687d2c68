"""Prefect without a server started by hand, and without its own lines between those of the command line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.settings import (
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_SERVER_ALLOW_EPHEMERAL_MODE,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

STARTUP_SECONDS = 120  # a new database is migrated first: 12 s on an idle laptop


@contextmanager
def embedded() -> Iterator[None]:
    """Settings for a flow that is called by a program and watched by it.

    Prefect stays off the terminal from here on; a run's lines still reach its API, by handlers of their own.
    """
    settings = {
        PREFECT_SERVER_ALLOW_EPHEMERAL_MODE: True,
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: STARTUP_SECONDS,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # its thread is joined in steps of a second at the end of a flow
    }
    logging.getLogger("prefect").propagate = False  # for good: the last lines come when the process ends
    with temporary_settings(settings):
        yield
