"""Prefect without a server started by hand, and without its own lines between those of the command line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect import get_client
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_SERVER_ALLOW_EPHEMERAL_MODE,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from noisyir.base.errors import ConfigError
from noisyir.engine.outside_errors import one_line

STARTUP_SECONDS = 120  # a new database is migrated first: 12 s on an idle laptop
FIRST_QUESTION = {PREFECT_API_REQUEST_TIMEOUT: 15.0, PREFECT_CLIENT_MAX_RETRIES: 2}  # 51 seconds; MLflow's takes 60


@contextmanager
def embedded() -> Iterator[None]:
    """Settings for a flow that is called by a program and watched by it.

    ConfigError when no server answers.  Prefect stays off the terminal from here on; a run's lines still reach its
    API, by handlers of their own.
    """
    settings: dict[Any, Any] = {
        PREFECT_SERVER_ALLOW_EPHEMERAL_MODE: True,
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: STARTUP_SECONDS,
    }
    if not PREFECT_API_URL.value():  # nobody there misses a beat, and the thread is joined in steps of a second
        settings[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
    logging.getLogger("prefect").propagate = False  # for good: the last lines come when the process ends
    with temporary_settings(settings):
        check_server("check PREFECT_API_URL, or --engine local")
        yield


def check_server(cure: str) -> None:
    """ConfigError if Prefect's server does not answer within about a minute; later questions may take longer."""
    where = PREFECT_API_URL.value() or "its embedded server"
    try:
        with temporary_settings(FIRST_QUESTION), get_client(sync_client=True) as client:
            client.api_version()
    except (httpx.HTTPError, ValueError, RuntimeError) as error:  # another's page; the embedded one did not start
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED:
            known = "PREFECT_API_AUTH_STRING, as source .noisyir/servers/env does"
            raise ConfigError(f"Prefect refuses the password at {where}: set {known}") from error
        raise ConfigError(f"Prefect does not answer at {where}: {one_line(error)}; {cure}") from error
