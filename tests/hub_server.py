"""A server that answers as the Hugging Face Hub does, as far as its client asks to fetch a repository; on loopback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub_server(repositories: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """Its address for HF_ENDPOINT, with these models by name, and the files that were asked for so far."""
    _Answer.repositories, _Answer.asked = repositories, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", _Answer.asked
    finally:
        server.shutdown()


class _Answer(BaseHTTPRequestHandler):
    repositories: ClassVar[dict[str, Path]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Answer with what was asked for."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Say how large it is, and at which commit."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        about = parts[:2] == ["api", "models"]
        name, file = "/".join(parts[2:4] if about else parts[:2]), "/".join(parts[4:])
        folder = self.repositories.get(name)
        if folder is None:
            self.send_error(404)
        elif about:
            self._send(_about(name, folder), "application/json", with_body=with_body)
        else:
            self.asked.extend([file] * with_body)
            self._send((folder / file).read_bytes(), "application/octet-stream", with_body=with_body)

    def _send(self, body: bytes, kind: str, *, with_body: bool) -> None:
        self.send_response(200)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "X-Repo-Commit": COMMIT}
        for header, value in {**headers, "ETag": f'"{sha256(body).hexdigest()}"'}.items():
            self.send_header(header, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _about(name: str, folder: Path) -> bytes:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    siblings = [{"rfilename": path.relative_to(folder).as_posix(), "size": path.stat().st_size} for path in files]
    return json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode()
