"""The process of a flow run as its worker sees it; the work is done by a fork of `infra.warm`, or by itself.

Run by path and with -I -S, so that it starts in some 20 ms: nothing but the standard library, and little of that.
"""

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

WARM = b"warm"  # as infra.warm says
PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """The exit code of the flow run's process."""
    signals: list[int] = []
    for number in PASSED_ON:
        signal.signal(number, lambda number, frame: signals.append(number))
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    found = _ask(os.environ.get("NOISYIR_WARM", ""))
    if found is None:
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-m", "prefect.engine"])
    host, process = found
    ends: set[int] = {host.fileno(), process}
    readable: list[int] = []
    while not ends & set(readable):
        readable, _, _ = select.select([*ends, awake], [], [])
        if awake in readable:
            os.read(awake, 64)
            while signals:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signals.pop(0))
    return _end(host, process)


def _ask(path: str) -> tuple[socket.socket, int] | None:
    """The host's end of a conversation, and the fork as a file descriptor; None where there is to be no fork."""
    try:
        host = socket.socket(socket.AF_UNIX)
        host.connect(path)
        told = json.dumps({"environment": dict(os.environ), "folder": str(Path.cwd())}).encode() + b"\n"
        socket.send_fds(host, [told[:1]], [0, 1, 2])
        host.sendall(told[1:])
        answer, files, _, _ = socket.recv_fds(host, len(WARM), 1)
    except OSError:
        return None
    return (host, files[0]) if answer == WARM and files else None


def _end(host: socket.socket, process: int) -> int:
    """How the fork ended.  Where the host has died, which alone can know: 1, once the fork has ended."""
    try:
        told = host.recv(16)
    except OSError:
        told = b""
    if not told:
        select.select([process], [], [])
        return 1
    code = int(told)
    if code < 0:
        with suppress(OSError):  # of SIGKILL, which nobody handles
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
