"""Processes that outlive the command that starts them: started, recognised again, asked for their health, stopped.

A process id alone names nobody, because the kernel gives it out again.  With the time at which the process was
started it does.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

START_SECONDS = 180  # a first start migrates a new database
STOP_SECONDS = 20
PORT_SECONDS = 5  # a process that was killed gives its port back a moment later
MARK = "NOISYIR_SERVER"  # in the environment of whatever a service starts, in whichever session that is


@dataclass(frozen=True)
class Service:
    """A process to run.  `healthy` takes the time at which it was started; `options` go to Popen."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    healthy: Callable[[float], bool]
    listens: tuple[str, int] | None = None
    port_variable: str = ""
    page: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    """A process that was started: `born` in the kernel's ticks since boot, `since` in seconds since 1970."""

    pid: int
    born: int
    since: float = field(default=0.0, compare=False)

    @property
    def alive(self) -> bool:
        """Whether this very process is still there."""
        return born(self.pid) == self.born


def born(pid: int) -> int | None:
    """When process `pid` was started, in ticks since boot; None when there is none, or only its remains.

    Since boot, because the time of day at which it was started changes when somebody sets the clock.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        since_boot: float = process.create_time() - psutil.boot_time()
        return round(since_boot * os.sysconf("SC_CLK_TCK"))
    except psutil.NoSuchProcess:
        return None


def start(service: Service, logs: Path, *, mark: str = "") -> "subprocess.Popen[bytes]":
    """Start `service` in a session of its own, so that Ctrl-C does not reach it, with its output in `logs`."""
    refuse_taken_port(service)
    logs.mkdir(parents=True, exist_ok=True)
    environment = {**service.environment, **({MARK: mark} if mark else {})}
    descriptor = os.open(logs / f"{service.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as log:
        return subprocess.Popen(
            service.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **service.options,
        )


def refuse_taken_port(service: Service) -> None:
    """SystemExit when somebody else listens where `service` is to listen."""
    deadline = time.monotonic() + PORT_SECONDS
    while service.listens is not None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(service.listens)
                return
            except OSError as error:
                host, port = service.listens
                if time.monotonic() > deadline:
                    raise SystemExit(
                        f"{service.name} cannot listen on {host}:{port}: {error.strerror}. "
                        f"Free it, or choose another: {service.port_variable}={port + 10}"
                    ) from error
        time.sleep(0.2)


def wait_until_healthy(service: Service, alive: Callable[[], bool], since: float, log: Path) -> None:
    """Return once `service` answers.  SystemExit when it ends before that, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while alive() and time.monotonic() < deadline:
        if service.healthy(since):
            return
        time.sleep(0.3)
    fault = f"did not answer within {START_SECONDS} s" if alive() else "ended by itself"
    raise SystemExit(f"{service.name} {fault}: see {log}")


def marked(mark: str) -> list[Running]:
    """The processes of this user whose environment carries `mark` or a mark that begins with it and a slash."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.AccessDenied, psutil.NoSuchProcess):  # another user's, or gone meanwhile
            if (
                f"{process.environ().get(MARK, '')}/".startswith(f"{mark}/")
                and (ticks := born(process.pid)) is not None
            ):
                found.append(Running(process.pid, ticks))
    return found


def stop(processes: Iterable[Running], signum: signal.Signals = signal.SIGTERM, *, find: str = "") -> None:
    """Ask `processes`, and all that carry the mark `find`, to end; kill those that have not after STOP_SECONDS."""
    asked: set[Running] = set()
    deadline = time.monotonic() + STOP_SECONDS
    remaining = set(processes)
    while remaining := {process for process in remaining | set(marked(find) if find else ()) if process.alive}:
        late = time.monotonic() >= deadline
        if time.monotonic() >= deadline + STOP_SECONDS:
            raise SystemExit(f"processes that cannot be ended: {sorted(process.pid for process in remaining)}")
        for process in remaining if late else remaining - asked:
            _send(process, signal.SIGKILL if late else signum)
        asked |= remaining
        time.sleep(0.1)


def wait_until_buried(process: Running) -> None:
    """Wait while a process that has ended keeps its number: Postgres takes that for life, and refuses to start."""
    deadline = time.monotonic() + STOP_SECONDS
    while psutil.pid_exists(process.pid) and not process.alive and time.monotonic() < deadline:
        time.sleep(0.1)


def _send(process: Running, signum: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        if process.alive:
            psutil.Process(process.pid).send_signal(signum)
