"""The page, served until somebody finishes: one process, one port, one token."""

import json
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from noisyir.app.judging.server import HOST, Body, judging_app
from noisyir.app.judging.session import JudgingSession
from noisyir.errors import MissingPackageError

_ACCESS = "judging.json"  # beside the judgements while a session is open


@dataclass(frozen=True)
class Access:
    """Where the page is: whoever is told the token may judge."""

    port: int
    token: str

    @classmethod
    def of(cls, folder: Path) -> Self:
        """That of the session before where it was killed, so that an open page goes on; else a new one."""
        try:
            found = json.loads((folder / _ACCESS).read_text())
            return cls(int(found["port"]), str(found["token"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(0, secrets.token_urlsafe(24))

    def keep(self, folder: Path) -> None:
        """Write it where nobody else reads it."""
        path = folder / _ACCESS
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.port}/{self.token}/"


def has_display() -> bool:
    """Whether a browser that this process opens would be seen by whoever started it."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def serve_page(
    session: JudgingSession, folder: Path, summary: Callable[[], str], announce: Callable[[str], None]
) -> None:
    """Serve the session's page until it is finished there, or interrupted.

    summary: what the page shows in the end.  announce: says a line to whoever started this.  MissingPackageError
    without starlette and uvicorn.
    """
    try:
        import uvicorn
        from starlette.applications import Starlette  # noqa: F401
    except ImportError as error:
        raise MissingPackageError("the page needs pip install 'noisyir[judge]'; --terminal works without") from error
    listening, access = _listen(Access.of(folder))
    access.keep(folder)

    def finish() -> Body:
        session.finish()
        server.should_exit = True
        return {"summary": summary()}

    app = judging_app(session, access.token, finish)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
    announce(f"judge at {access.url} (Ctrl-C ends)")
    if has_display():
        webbrowser.open(access.url)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # as the announcement says
    finally:
        listening.close()
    (folder / _ACCESS).unlink(missing_ok=True)


def _listen(wanted: Access) -> tuple[socket.socket, Access]:
    """A socket on the port that is wanted; on any other where somebody has it, and then with another token."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, wanted.port))
    except OSError:
        wanted = Access(0, secrets.token_urlsafe(24))
        listening.bind((HOST, 0))
    listening.listen()  # who is told the address at once may call before the server is up
    return listening, Access(listening.getsockname()[1], wanted.token)
