"""Object stores that may not answer: how long that is waited for."""

import os
from threading import Thread
from typing import Any

from noisyir.engine.outside_errors import without_password
from noisyir.engine.waiting import seconds_of
from noisyir.errors import StoreError

SECONDS = "NOISYIR_REMOTE_SECONDS"  # for the first answer; later ones may take twice as long
_USUAL = "6"


def patient_options(protocol: str) -> dict[str, Any]:
    """Options of a file system that let it give up what never answers, but where fsspec's own settings have some.

    What answers that it failed is asked three times more, as the makers of S3 ask of its clients.
    """
    from fsspec.config import conf

    if protocol not in ("s3", "s3a") or "config_kwargs" in conf.get("s3", {}):
        return {}
    first = first_answer_seconds()
    return {"config_kwargs": {"connect_timeout": first, "read_timeout": 2 * first, "retries": {"max_attempts": 3}}}


def limit_attempts(fs: Any) -> None:
    """Have s3fs begin anew once, not four times: beneath it the client asks four times whenever it does.

    Nor does it ask leave before it sends: after a server's "100 Continue" aiohttp waits for the answer for ever.
    """
    if not hasattr(fs, "retries"):
        return
    from aiobotocore.session import AioSession
    from botocore.handlers import add_expect_header

    fs.retries = 2
    if fs.session is None:
        fs.session = AioSession(**fs.kwargs)
        fs.session.unregister("before-call.s3", add_expect_header)


def check_answers(fs: Any, root: str, url: str) -> None:
    """StoreError where an object store says nothing in the time for a first answer; what it says is left to others."""
    asking = Thread(target=_ask, args=(fs, root), daemon=True)  # a daemon, for it may never come back
    asking.start()
    asking.join(first_answer_seconds())
    if asking.is_alive():
        raise StoreError(
            f"the store {without_password(url)} does not answer within {first_answer_seconds():g} s: check its address "
            f"and the network, or wait longer with {SECONDS}=60"
        )


def _ask(fs: Any, root: str) -> None:
    try:
        fs.exists(root)
    except Exception:  # an answer, too: what it means is told by who reads or writes
        return


def first_answer_seconds() -> float:
    """How long a first answer is waited for."""
    return seconds_of(os.environ.get(SECONDS) or _USUAL)
