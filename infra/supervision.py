"""Services of one machine under supervisord: started, started again when they die, asked for their health, stopped.

supervisord's own file of settings names programs only.  Their commands and environments, passwords included, lie in
`services.json`, which only its owner can read; `infra/start.py` becomes the service that supervisord asks it for.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from xmlrpc.client import Fault, ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

from infra.start import MARK, marked, stop

START_SECONDS = 180  # a first start migrates a new database
STOP_SECONDS = 20
PORT_SECONDS = 5  # a process that was killed gives its port back a moment later
LONGEST_SOCKET = 100  # bytes of a path, which the kernel limits
SETTINGS = """\
[unix_http_server]
file=%(here)s/supervisor.sock
[supervisord]
logfile=%(here)s/logs/supervisord.log
pidfile=%(here)s/supervisord.pid
umask=077
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
PROGRAM = """\
[program:{name}]
command={python} -m infra.start {name}
autostart=false
autorestart={again}
startsecs=2
startretries=1000
stopsignal={signal}
stopwaitsecs={seconds}
stopasgroup={group}
killasgroup=true
redirect_stderr=true
stdout_logfile=%(here)s/logs/{name}.log
"""


@dataclass(frozen=True)
class Service:
    """A process to run, as `user` where root starts it.  `healthy` takes the time at which it was started.

    group: the services that are stopped together.  signal: asks it to end; None: SIGTERM, to its process group.
    """

    name: str
    group: str
    command: Sequence[str]
    environment: Mapping[str, str]
    healthy: Callable[[float], bool]
    listens: tuple[str, int] | None = None
    port_variable: str = ""
    page: str = ""
    folder: str = ""
    user: str = ""
    signal: str | None = None


@dataclass(frozen=True)
class Supervisor:
    """The supervisord of a folder; what its services start carries the folder's name as a mark in its environment."""

    folder: Path

    @property
    def logs(self) -> Path:
        """A log for each service."""
        return self.folder / "logs"

    @property
    def _calls(self) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self.folder / 'supervisor.sock'}")
        return cast(Any, ServerProxy("http://127.0.0.1", transport)).supervisor

    def is_up(self) -> bool:
        """Whether supervisord answers."""
        try:
            return bool(self._calls.getState())
        except OSError:
            return False

    def pids(self) -> dict[str, int]:
        """The process of each service that runs, by its name."""
        about = self._calls.getAllProcessInfo() if self.is_up() else []
        return {service["name"]: service["pid"] for service in about if service["pid"]}

    def begin(self, services: Sequence[Service], root: Path, *, restarts: bool) -> None:
        """Have supervisord run, with these services; none of them is started yet."""
        write_private(self.folder / "services.json", json.dumps({one.name: self._start_of(one) for one in services}))
        if self.is_up():
            return
        if len(os.fsencode(self.folder / "supervisor.sock")) > LONGEST_SOCKET:
            raise SystemExit(f"{self.folder}: too long for a socket in it: choose a shorter NOISYIR_HOME")
        self.logs.mkdir(parents=True, exist_ok=True)
        programs = [
            PROGRAM.format(
                name=service.name,
                python=sys.executable.replace("%", "%%"),
                again=str(restarts).lower(),
                signal=service.signal or "TERM",
                seconds=STOP_SECONDS,
                group=str(service.signal is None).lower(),
            )
            for service in services
        ]
        settings = self.folder / "supervisord.conf"
        write_private(settings, SETTINGS + "".join(programs))
        environment = {**os.environ, "NOISYIR_SERVICES": str(self.folder), "PYTHONPATH": str(root)}
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(settings)]
        subprocess.run(command, check=True, cwd=root, env=environment, start_new_session=True)
        _wait(self.is_up, lambda: True, f"supervisord does not answer: see {self.logs}")

    def run(self, services: Sequence[Service]) -> list[str]:
        """Start the services that do not run; wait until all are healthy.  The names of those started."""
        absent = {service.name: time.time() for service in services if not self._runs(service)}
        if absent:
            print(f"starting  {', '.join(absent)} ...", flush=True)
        for service in services:
            if service.name in absent:
                self.stop([service.name])  # where supervisord is about to try again
                stop(marked(self._mark(service)))  # what it left behind when it was killed holds its port
                refuse_taken_port(service)
                self._calls.startProcess(service.name, False)
        for service in services:
            _wait(
                lambda one=service: one.healthy(absent.get(one.name, 0.0)),  # type: ignore[misc]
                lambda one=service: self._runs(one),  # type: ignore[misc]
                f"{service.name} ended by itself, or did not answer within {START_SECONDS} s: "
                f"see {self.logs / service.name}.log",
            )
        return list(absent)

    def stop(self, names: Iterable[str] = (), group: str = "") -> None:
        """End these services, and all that a group of them started."""
        for name in names:
            with suppress(Fault, OSError):  # it has ended, or supervisord has
                self._calls.stopProcess(name)
        if group:
            stop(self.started_by(group))

    def end(self) -> None:
        """End supervisord, with whatever it still runs."""
        with suppress(OSError, psutil.NoSuchProcess):
            supervisord = psutil.Process(self._calls.getPID())
            self._calls.shutdown()
            supervisord.wait(2 * STOP_SECONDS)
        for name in ("services.json", "supervisord.conf", "settings.json", "env"):
            (self.folder / name).unlink(missing_ok=True)

    def started_by(self, group: str) -> list[psutil.Process]:
        """The processes of a group's services, and whatever those started, in whichever session."""
        return marked(f"{self.folder}:{group}")

    def _mark(self, service: Service) -> str:
        return f"{self.folder}:{service.group}/{service.name}"

    def _runs(self, service: Service) -> bool:
        return self._calls.getProcessInfo(service.name)["statename"] in ("STARTING", "RUNNING")

    def _start_of(self, service: Service) -> dict[str, Any]:
        environment = {**service.environment, MARK: self._mark(service)}
        where = {"folder": service.folder, "user": service.user}
        return {"command": list(service.command), "environment": environment, **where}


def refuse_taken_port(service: Service) -> None:
    """SystemExit when somebody else listens where `service` is to listen."""
    deadline = time.monotonic() + PORT_SECONDS
    while service.listens is not None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                return probe.bind(service.listens)
            except OSError as error:
                host, port = service.listens
                if time.monotonic() > deadline:
                    raise SystemExit(
                        f"{service.name} cannot listen on {host}:{port}: {error.strerror}. "
                        f"Free it, or choose another: {service.port_variable}={port + 10}"
                    ) from error
        time.sleep(0.2)


def write_private(path: Path, text: str) -> None:
    """Replace `path` with a file of mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(text)
    new.replace(path)


def _wait(healthy: Callable[[], bool], alive: Callable[[], bool], fault: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not healthy():
        if not alive() or time.monotonic() > deadline:
            raise SystemExit(fault)
        time.sleep(0.3)
