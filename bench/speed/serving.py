"""What the rows of serving share: servers as processes of their own, and clients that each ask again once answered."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.speed.row import Taken, Work
from bench.speed.texts import Texts

CLIENTS = 16


@contextmanager
def served(*command: str, **environment: str) -> Iterator[tuple[str, int]]:
    """A server that `command` starts, with `{port}` in it, and its address once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", *(word.format(port=port) for word in command)])
    try:
        for _ in range(1200):
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            with socket.socket() as peer:
                if peer.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield "127.0.0.1", port
    finally:
        process.terminate()
        process.wait(60)


def ours(folder: Path, *more: str) -> Any:
    """noisyir's server of a model in a folder, or an experiment in a store."""
    return served("noisyir.front.cli", "serve", str(folder), "--port", "{port}", *more)


def theirs(folder: Path) -> Any:
    """sentence-transformers behind the same ASGI stack, each request encoded by itself in a thread."""
    return served("bench.speed.peer_server", str(folder), "{port}")


def queries(work: Work, size: int) -> list[str]:
    """So many queries of the data, the first ones again where there are fewer."""
    found = Texts.read(work.texts).queries
    return [found[number % len(found)] for number in range(size)]


def embedding_requests(work: Work, size: int) -> list[bytes]:
    """Calls of /v1/embeddings with a query each, as OpenAI's client makes them."""
    bodies = [{"input": text, "model": "model", "encoding_format": "base64"} for text in queries(work, size)]
    return [request("/v1/embeddings", body) for body in bodies]


def request(path: str, body: dict[str, Any]) -> bytes:
    """The bytes of a POST."""
    text = json.dumps(body).encode()
    fields = ("Host: localhost", "Content-Type: application/json", f"Content-Length: {len(text)}")
    head = "".join(f"{line}\r\n" for line in (f"POST {path} HTTP/1.1", *fields, ""))
    return head.encode() + text


def asked(address: tuple[str, int], requests: Sequence[bytes], clients: int = CLIENTS) -> Taken:
    """What all requests took, by so many clients at once, and the 99th percentile of one; the first tenth warms up."""
    first = len(requests) // 10
    asyncio.run(_ask(address, requests[:first], clients))
    began = time.perf_counter()
    each = asyncio.run(_ask(address, requests[first:], clients))
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "items": len(each), "p99_ms": 1000 * float(np.quantile(each, 0.99))}


async def _ask(address: tuple[str, int], requests: Sequence[bytes], clients: int) -> list[float]:
    left = iter(requests)
    times: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection(*address)
        for sent in left:
            began = time.perf_counter()
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return times
