"""A webhook on this machine, such as a team's channel has, and the messages that it got."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import NamedTuple


class Told(NamedTuple):
    """Its address, and its messages."""

    url: str
    messages: "queue.Queue[dict[str, str]]"


@contextmanager
def channel() -> Iterator[Told]:
    """Listen."""
    told: queue.Queue[dict[str, str]] = queue.Queue()

    class Channel(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Channel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Told(f"http://127.0.0.1:{server.server_port}/secret", told)
        server.shutdown()
