"""The process of a flow run as its worker sees it; the work is done by a fork of `infra.warm`, or by itself.

Run by path and with -I -S, so that it starts in some 20 ms: nothing but the standard library, and little of that.
"""

import json
import os
import select
import signal
import socket
import sys

COLD, WARM = b"cold", b"warm"


def main() -> int:
    """The exit code of the flow run's process."""
    passed_on: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: passed_on.append(number))
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    found = _ask(os.environ.get("NOISYIR_WARM", ""))
    if found is None or passed_on:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-m", "prefect.engine"])
    host, process = found
    while True:
        readable, _, _ = select.select([host, process, awake], [], [])
        if awake in readable:
            os.read(awake, 64)
            while passed_on:
                _send(process, passed_on.pop(0))
        if host in readable:
            return _end(host, process)
        if process in readable:
            return _end(host, process)


def _ask(path: str) -> tuple[socket.socket, int] | None:
    """The host's end of a conversation, and the fork as a file descriptor; None where there is to be no fork."""
    try:
        folder = os.open(os.path.dirname(path), os.O_PATH)
        host = socket.socket(socket.AF_UNIX)
        host.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        told = json.dumps({"environment": dict(os.environ), "folder": os.getcwd()}).encode() + b"\n"
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
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code


def _send(process: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    sys.exit(main())
