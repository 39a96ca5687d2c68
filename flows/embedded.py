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
    """Settings for a flow that is called by a program and watched by it."""
    settings = {
        PREFECT_SERVER_ALLOW_EPHEMERAL_MODE: True,
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: STARTUP_SECONDS,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # its thread is joined in steps of a second at the end of a flow
    }
    log = logging.getLogger("prefect")
    log.propagate, before = False, log.propagate  # the runs' loggers reach Prefect's API by handlers of their own
    try:
        with temporary_settings(settings):
            yield
    finally:
        log.propagate = before
