"""An endpoint of the chat protocol on this machine, whose every answer is scripted by a test."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GARBAGE = b"<html>\xff\x00 busy"


@dataclass
class Reaction:
    """What is sent back.  hang: seconds before anything is."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0


@dataclass
class Call:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """Query and document as they stand in the prompt."""
        return self.body["messages"][1]["content"]


def says(content: str, usage: dict[str, int] | None = None) -> Reaction:
    """A proper reply of the protocol that holds a message."""
    body: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": content}}]}
    return Reaction(body=json.dumps(body | ({"usage": usage} if usage else {})).encode())


def verdict(word: str, reason: str = "because") -> Reaction:
    """A proper answer, of 100 tokens read and 10 written."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return says(json.dumps({"verdict": word, "reason": reason}), usage)


def chances(**words: float) -> Reaction:
    """A proper reply with log-probabilities: of these words, and what is left of no."""
    found = words | ({} if "no" in words or "yes" not in words else {"no": 1 - words["yes"]})
    listed = [{"token": word, "logprob": math.log(chance)} for word, chance in found.items() if chance]
    first = max(listed, key=lambda one: one["logprob"])
    choice = {"message": {"content": first["token"]}, "logprobs": {"content": [{**first, "top_logprobs": listed}]}}
    return Reaction(
        body=json.dumps({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 1}}).encode()
    )


class JudgeServer:
    """`react` is given each call and how many calls asked about the same texts before it."""

    def __init__(self, react: Callable[[Call, int], Reaction]) -> None:
        self.react = react
        self.calls: list[Call] = []
        self.most_at_once = 0
        self.closing = threading.Event()
        self._at_once = 0
        self._lock = threading.Lock()

    def answer(self, call: Call) -> Reaction:
        """The scripted reaction, after its time."""
        with self._lock:
            before = sum(other.text == call.text for other in self.calls)
            self.calls.append(call)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        reaction = self.react(call, before)
        self.closing.wait(reaction.hang)
        with self._lock:
            self._at_once -= 1
        return reaction


@contextmanager
def judge_server(react: Callable[[Call, int], Reaction]) -> Iterator[tuple[JudgeServer, str]]:
    """A server on a port of its own, and its base address."""
    judge = JudgeServer(react)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            reaction = judge.answer(Call(self.path, dict(self.headers), json.loads(self.rfile.read(length))))
            try:
                self.send_response(reaction.status)
                for name, value in reaction.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reaction.body)))
                self.end_headers()
                self.wfile.write(reaction.body)
            except OSError:  # the client left
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield judge, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        judge.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
