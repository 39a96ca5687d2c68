"""Mixed load on a server: whole, malformed, oversize, slow and given-up requests; no 5xx, and no memory gained.

A trial is a second of it by eight clients.  Each error has its protocol's shape, and a whole request its answer.
"""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

from noisyir.engine.store import Store
from tests.chaos.case import Case
from tests.local import free_port
from tests.served import NAME, http, make_world, random_encoder

_CLIENTS, _WARM = 8, 15  # trials until caches are full
_GROWTH = 1.05
_CALLS = {
    "/v1/embeddings": {"input": ["w1 w2", "w3"]},
    "/embed": {"inputs": "w1"},
    "/rerank": {"query": "w1", "texts": ["w2", "w3 w4"]},
    "/v1/rerank": {"query": "w1", "documents": ["w2", "w9"]},
    f"/v1/vector_stores/{NAME}/search": {"query": "w1 w7"},
    "/similarity": {"inputs": {"source_sentence": "w1", "sentences": ["w2"]}},
}
_SHAPES = {"error", "error_type"}, {"message", "detail"}, {"error"}


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many seconds."""
    store = make_world(Store(folder / "store", home=folder), random_encoder())
    with _server(store, folder / "log") as (pid, port), ThreadPoolExecutor(_CLIENTS) as pool:
        before = 0
        for number in range(count):
            until = time.monotonic() + 1
            draws = [random.Random(f"{seed} {number} {client}") for client in range(_CLIENTS)]
            asked = pool.map(_ask, draws, repeat(port), repeat(until))
            faults = [fault for fault in asked if fault]
            if number == _WARM:
                before = _memory(pid)
            if before and (now := _memory(pid)) > before * _GROWTH:
                faults.append(f"{now / before:.2f} times the memory of second {_WARM}")
            if "Traceback" in (folder / "log").read_text():
                faults.append("a traceback in the log")
            yield Case(f"second {number}", faults[0] if faults else None)


@contextmanager
def _server(store: Store, log: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    limits = ["--max-items", "64", "--max-bytes", "20000", "--max-waiting", "256", "--threads", "1"]
    command = [
        sys.executable,
        "-m",
        "noisyir.front.cli",
        "serve",
        NAME,
        "--store",
        store.url,
        "--port",
        str(port),
        *limits,
    ]
    with log.open("w") as out:
        process = subprocess.Popen(command, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(60)


def _memory(pid: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _ask(draw: random.Random, port: int, until: float) -> str | None:
    """What was not as it should be, of one client's requests until then."""
    while time.monotonic() < until:
        path = draw.choice([*_CALLS])
        if fault := draw.choice([_whole, _whole, _broken, _large, _left])(draw, port, path):
            return f"{path}: {fault}"
    return None


def _whole(draw: random.Random, port: int, path: str) -> str | None:
    answer = http.post(f"http://127.0.0.1:{port}{path}", json=_CALLS[path])
    return None if answer.status_code in (200, 429) else f"{answer.status_code} {answer.text[:200]}"


def _broken(draw: random.Random, port: int, path: str) -> str | None:
    """A body of which some bytes are others."""
    body = bytearray(json.dumps(_CALLS[path]).encode())
    for _ in range(draw.randint(1, 6)):
        body[draw.randrange(len(body))] = draw.randrange(256)
    return _error(http.post(f"http://127.0.0.1:{port}{path}", content=bytes(body)), {200, 400, 404, 413, 422, 429})


def _large(draw: random.Random, port: int, path: str) -> str | None:
    body = {**_CALLS[path], "padding": "x" * draw.randint(21_000, 200_000)}
    return _error(http.post(f"http://127.0.0.1:{port}{path}", json=body), {413})


def _error(answer, allowed: set[int]) -> str | None:
    if answer.status_code not in allowed:
        return f"{answer.status_code} {answer.text[:200]}"
    return (
        None if answer.status_code == 200 or {*answer.json()} in _SHAPES else f"a shape of its own: {answer.text[:200]}"
    )


def _left(draw: random.Random, port: int, path: str) -> None:
    """A request that comes slowly, or is given up: in its head, in its body, or before its answer."""
    body = json.dumps(_CALLS[path]).encode()
    whole = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        sent = draw.randrange(len(whole) + 1)
        peer.sendall(whole[: sent // 2])
        time.sleep(draw.choice([0, 0, 0.05]))
        peer.sendall(whole[sent // 2 : sent])
