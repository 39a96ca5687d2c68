"""A process that has imported what flow runs need, and forks one for each flow run that a worker of this machine takes.

usage: NOISYIR_WARM=SOCKET python -m infra.warm

Importing costs some ten seconds of a core, more than many a stage.  A worker (`infra.worker`) starts
`infra/warm_client.py` in place of `python -m prefect.engine`; that hands its environment and its three streams to this
process, which forks, and the fork is the engine.  The client stays as the process that the worker knows: it passes
signals on and ends as the fork ends.  Where the fork would not be what a fresh process is (another environment, changed
files, threads) the client is told so, and becomes a fresh process itself.
"""

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import noisyir.tasks  # noqa: F401 - switches telemetry off before prefect is imported

NEEDED = (
    *("noisyir.flows", "noisyir.flows.dispatched_step", "prefect.flow_engine"),
    *("torch", "mlflow", "tokenizers", "safetensors.torch", "pyarrow.dataset", "scipy.stats"),
    # which these import only as they work
    *("torch.fx.experimental.symbolic_shapes", "prefect.utilities.visualization"),
    "mlflow.tracking.request_header.registry",
)
NICE_TO_HAVE = ("faiss", "numba", "transformers", "bm25s", "IPython")  # of extras that a machine may lack
# What may differ between this process and a flow run: it is read by the run itself, and by nothing that is imported.
_OF_A_RUN = ("PREFECT__", "NOISYIR_SERVER", "SUPERVISOR_", "CUDA_VISIBLE_DEVICES", "PWD", "OLDPWD", "SHLVL", "_")
_REQUEST_SECONDS = 10.0
COLD, WARM = b"cold", b"warm"


@dataclass(frozen=True)
class Request:
    """What a client hands over: environment, working folder, and its standard input, output and error."""

    environment: Mapping[str, str]
    folder: str
    streams: tuple[int, ...]


@dataclass
class Host:
    """Takes requests at `path`; `run` forks for each, and returns in the fork.

    environment: that of its start, which requests must have, too.  begun_by: the command by which it begins anew when
    files have changed and nothing is at work.
    """

    path: Path
    environment: Mapping[str, str]
    begun_by: Sequence[str] = (sys.executable, "-m", "infra.warm")
    at_work: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)  # by the fork's pidfd
    _files: Mapping[str, int | None] = field(default_factory=dict)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def run(self) -> Request:
        """Serve for ever, here; in a fork, return what it was asked for."""
        listening = _listen(self.path)
        self._files = _loaded_files()
        gc.freeze()  # so that the forks' collections leave the shared pages alone
        self._selector.register(listening, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is listening:
                    with suppress(OSError, ValueError):  # of a client that died at once
                        if request := self._answer(listening.accept()[0]):
                            listening.close()
                            return request
                elif key.data is None:
                    self._buried(key.fd)
                else:
                    self._abandoned(key.fd, key.data)

    def _answer(self, client: socket.socket) -> Request | None:
        """Fork for a client, or tell it to start a process of its own.  The request in the fork, None here."""
        client.settimeout(_REQUEST_SECONDS)
        request = _read(client)
        why = self._why_cold(request)
        if why:
            print(f"a flow run starts from nothing: {why}", file=sys.stderr, flush=True)
        pid = None if why else os.fork()
        if pid == 0:
            for _, other in self.at_work.values():
                other.close()
            client.close()
            self._selector.close()
            os.setsid()
            return request
        for stream in request.streams:
            os.close(stream)
        if pid is None:
            client.sendall(COLD)
            client.close()
            if not self.at_work and self._changed():
                # with the environment of its start: what imports have added since is in no request
                os.execve(sys.executable, list(self.begun_by), self.environment)
            return None
        process = os.pidfd_open(pid)
        self.at_work[process] = (pid, client)
        self._selector.register(process, selectors.EVENT_READ)
        self._selector.register(client, selectors.EVENT_READ, process)
        socket.send_fds(client, [WARM], [process])
        return None

    def _buried(self, process: int) -> None:
        """A fork has ended: its client is told how, in the numbers of `Popen.returncode`."""
        pid, client = self.at_work.pop(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._selector.unregister(process)
        with suppress(KeyError):
            self._selector.unregister(client)
        with suppress(OSError):
            client.sendall(str(code).encode())
        client.close()
        os.close(process)

    def _abandoned(self, client: int, process: int) -> None:
        """A client has died, and with it what its worker knows of the run: so does the fork, with what it started."""
        self._selector.unregister(client)
        with suppress(OSError):
            os.killpg(self.at_work[process][0], signal.SIGKILL)
        with suppress(OSError):
            signal.pidfd_send_signal(process, signal.SIGKILL)

    def _why_cold(self, request: Request) -> str | None:
        """Why a fork would not be what a fresh process is; None: it would."""
        if differ := different(self.environment, request.environment):
            return f"other values of {', '.join(differ)}"
        if threading.active_count() > 1:
            return "threads run here"
        return "files have changed" if self._changed() else None

    def _changed(self) -> bool:
        return any(_time(path) != time for path, time in self._files.items())


def different(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The variables that differ between two environments, without those that a run has of its own."""
    return sorted({name for name, _ in one.items() ^ other.items() if not name.startswith(_OF_A_RUN)})


def _listen(path: Path) -> socket.socket:
    """A socket that only this user can reach."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    mask = os.umask(0o077)
    try:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen(64)
        return listening
    finally:
        os.umask(mask)


def _read(client: socket.socket) -> Request:
    """A request: three streams with the first byte, then a line of JSON.  ValueError where it is cut off."""
    first, streams, _, _ = socket.recv_fds(client, 1, 3)
    given: dict[str, Any] = json.loads(first + client.makefile("rb").readline())
    return Request(given["environment"], given["folder"], tuple(streams))


def _loaded_files() -> dict[str, int | None]:
    """When each file of a module that is loaded was written."""
    paths = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {path: time for path in paths if isinstance(path, str) and (time := _time(path))}


def _time(path: str) -> int | None:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


def take_over(request: Request) -> None:
    """Have the environment, the folder and the streams of a request."""
    os.environ.update(request.environment)  # what modules have added stays
    os.chdir(request.folder)
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)


def main() -> None:
    """Import, serve, and in each fork be the engine of the flow run that its environment names, to its end."""
    from prefect.settings import get_current_settings

    path = os.environ.get("NOISYIR_WARM")
    if not path:
        raise SystemExit("NOISYIR_WARM is not set: it names the socket at which flow runs are asked for")
    # As workers, which import less, have it and give it to their flow runs.
    environment = {**os.environ, **get_current_settings().to_environment_variables(exclude_unset=True)}
    for name in NEEDED:
        import_module(name)
    for name in NICE_TO_HAVE:
        with suppress(ImportError):
            import_module(name)
    take_over(Host(Path(path), environment).run())
    sys.argv = ["prefect.engine"]
    sys.modules.pop("prefect.engine", None)  # else runpy warns of it
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
