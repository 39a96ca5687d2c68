"""Services of one machine under supervisord: started, started again when they die, asked for their health, stopped.

usage: python -m infra.supervision ARGUMENTS      ends what the service's last process left, then is `python ARGUMENTS`
"""

import os
import re
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

ROOT = Path(__file__).resolve().parents[1]
MARK = "NOISYIR_SERVER"  # in the environment of whatever a service starts, in whichever session that is
START_SECONDS = 180  # a first start migrates a new database
STOP_SECONDS = 20
PORT_SECONDS = 5  # a process that was killed gives its port back a moment later
LONGEST_SOCKET = 100  # bytes of a path, which the kernel limits


@dataclass(frozen=True)
class Service:
    """A program of supervisord's settings, of the mark FOLDER:GROUP/NAME; `healthy` takes the time of its start."""

    name: str
    group: str
    healthy: Callable[[float], bool]
    listens: tuple[str, int] | None = None


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

    def begin(self, settings: str, environment: Mapping[str, str]) -> None:
        """Have supervisord run with these settings, unless it does; none of its programs is started yet."""
        if self.is_up():
            return
        if len(os.fsencode(self.folder / "supervisor.sock")) > LONGEST_SOCKET:
            raise SystemExit(f"{self.folder}: too long for a socket in it: choose a shorter NOISYIR_HOME")
        self.logs.mkdir(parents=True, exist_ok=True)
        path = self.folder / "supervisord.conf"
        write_private(path, settings)
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(path)]
        subprocess.run(command, check=True, cwd=ROOT, env=environment, start_new_session=True)
        _wait(self.is_up, lambda: True, "supervisord does not answer", self.logs / "supervisord.log")

    def run(self, services: Sequence[Service]) -> list[str]:
        """Start the services that do not run; wait until all are healthy.  The names of those started."""
        running = self.pids()
        absent = {service.name: time.time() for service in services if service.name not in running}
        if absent:
            print(f"starting  {', '.join(absent)} ...", flush=True)
        for service in services:
            if service.name in absent:
                # Where supervisord is about to try again; and what it left behind when it was killed holds its port.
                self.stop([service.name], f"{service.group}/{service.name}")
                refuse_taken_port(service)
                self._calls.startProcess(service.name, False)
        for service in services:
            _wait(
                lambda one=service: one.healthy(absent.get(one.name, 0.0)),  # type: ignore[misc]
                lambda one=service: one.name in self.pids(),  # type: ignore[misc]
                f"{service.name} ended by itself, or did not answer within {START_SECONDS} s",
                self.logs / f"{service.name}.log",
            )
        return list(absent)

    def stop(self, names: Iterable[str], group: str) -> None:
        """End these services, and all that their group started."""
        for name in names:
            with suppress(Fault, OSError):  # it has ended, or supervisord has
                self._calls.stopProcess(name)
        stop(self.started_by(group))

    def end(self) -> None:
        """End supervisord, with whatever it still runs."""
        with suppress(OSError, psutil.NoSuchProcess):
            supervisord = psutil.Process(self._calls.getPID())
            self._calls.shutdown()
            supervisord.wait(2 * STOP_SECONDS)
        for name in ("supervisord.conf", "settings.json", "env"):
            (self.folder / name).unlink(missing_ok=True)

    def started_by(self, group: str) -> list[psutil.Process]:
        """The processes of a group's services, and whatever those started, in whichever session."""
        return marked(f"{self.folder}:{group}")


def marked(mark: str) -> list[psutil.Process]:
    """The processes of this user whose environment carries `mark`, or a mark that begins with it and a slash."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.AccessDenied, psutil.NoSuchProcess):  # another user's, or gone meanwhile
            if f"{process.environ().get(MARK, '')}/".startswith(f"{mark}/") and process.pid != os.getpid():
                found.append(process)
    return found


def stop(processes: Sequence[psutil.Process]) -> None:
    """Ask processes to end; kill those that have not after `STOP_SECONDS`.  A number given out again is not hit."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, late = psutil.wait_procs(processes, STOP_SECONDS)
    for process in late:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(late, STOP_SECONDS)


def refuse_taken_port(service: Service) -> None:
    """SystemExit when somebody else listens where `service` is to listen."""
    deadline = time.monotonic() + PORT_SECONDS
    while service.listens is not None:
        try:
            return socket.create_server(service.listens).close()
        except OSError as error:
            host, port = service.listens
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"{service.name} cannot listen on {host}:{port}: {error.strerror}. "
                    f"Free it, or choose another: {service.name.upper()}_PORT={port + 10}"
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


def _wait(healthy: Callable[[], bool], alive: Callable[[], bool], fault: str, log: Path) -> None:
    """Wait until it is healthy.  SystemExit, with the last error in its log, if it ended or took too long."""
    deadline = time.monotonic() + START_SECONDS
    while not healthy():
        if not alive() or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            said = next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)), "")
            told = f"{fault}: see {log}; on a busy machine type the same command again"
            raise SystemExit("\n".join(filter(None, [told, said])))
        time.sleep(0.3)


if __name__ == "__main__":
    stop(marked(os.environ[MARK]))
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
