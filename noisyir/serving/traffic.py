"""HTTP traffic: access control, size limits, and metrics."""

import asyncio
import hmac
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, exposition, multiprocess
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from noisyir.audits.own_pages import LOOPBACK, foreign
from noisyir.serving.batching import OverloadedError
from noisyir.serving.options import ServeOptions
from noisyir.serving.protocols import MALFORMED, Protocol, RefusedError, error_body, protocol_of

log = logging.getLogger("noisyir")

_BODY_SECONDS = 30.0  # time limit for receiving a body
_OPEN = ("/health",)  # probes: no key, any host name
_PATHS = {
    "/", "/audit", "/embed", "/health", "/info", "/metrics", "/rerank", "/similarity", "/why",
    "/v1/embeddings", "/v1/models", "/v1/rerank", "/v2/rerank",
}  # fmt: skip
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters and timers, aggregated over processes that share $PROMETHEUS_MULTIPROC_DIR."""

    media_type = exposition.CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter("noisyir_requests", "requests answered", ["path", "status"], registry=own)
        told = "from its headers to the end of the answer"
        self._seconds = Histogram("noisyir_request_seconds", told, ["path"], buckets=_SECONDS, registry=own)
        self._sizes = Histogram("noisyir_batch_size", "texts of a batch", ["queue"], buckets=_SIZES, registry=own)
        about = "the model that answers"
        self._model = Gauge("noisyir_model_info", about, ["model", "digest"], registry=own, multiprocess_mode="livemax")

    def request(self, path: str, status: int, seconds: float) -> None:
        """Record an answered request."""
        name = path if path in _PATHS else "/v1/vector_stores/{id}" if "/vector_stores/" in path else "other"
        self._requests.labels(name, str(status)).inc()
        self._seconds.labels(name).observe(seconds)

    def batch(self, queue: str, size: int) -> None:
        """Record a computed batch."""
        self._sizes.labels(queue).observe(size)

    def model(self, name: str, digest: str) -> None:
        """Record the model served from now on."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            self._model.clear()
        self._model.labels(name, digest).set(1)

    def text(self) -> bytes:
        """All metrics in Prometheus format."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return exposition.generate_latest(registry)


def answer(value: Any, headers: Mapping[str, str] | None = None, status: int = 200) -> Response:
    """Return a value, which may contain number arrays, as a JSON response."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")


async def read_body(request: Request, most: int) -> bytes:
    """Read the whole body.

    Raises:
        RefusedError: If it is too large, or does not arrive.
    """
    sent = bytearray()
    declared = request.headers.get("content-length", "0")
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            if not declared.isdecimal() or int(declared) > most:
                raise RefusedError(f"the body has more than {most:,} bytes: send fewer texts in a request", 413)
            async for chunk in request.stream():
                sent += chunk
                if len(sent) > most:
                    raise RefusedError(f"the body has more than {most:,} bytes: send fewer texts in a request", 413)
    except TimeoutError as error:
        raise RefusedError(f"the body did not come within {_BODY_SECONDS:.0f} seconds", 408) from error
    return bytes(sent)


def refusal_of(request: Request, error: Exception) -> Response:
    """Return an error in its protocol's format."""
    protocol = protocol_of(request.scope["path"])
    if isinstance(error, RefusedError):
        status = error.status or MALFORMED[protocol]
        return answer(error_body(protocol, status, error.message, error.param), status=status)
    if isinstance(error, OverloadedError):
        return answer(error_body(protocol, 429, str(error)), {"Retry-After": "1"}, 429)
    if isinstance(error, HTTPException):
        return answer(error_body(protocol, error.status_code, str(error.detail)), error.headers, error.status_code)
    return Response(status_code=499)  # ClientDisconnect: the client is gone


class AccessGuard:
    """Middleware that rejects foreign or unauthenticated requests before reading the body, and measures the rest.

    Attributes:
        keys: Accepted keys; if empty, no key is required.
    """

    def __init__(self, app: Any, options: ServeOptions, keys: Sequence[str], metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics
        self.names, self.welcome = {*LOOPBACK, *options.names}, options.cors
        self.keys = [key.encode() for key in keys]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Forward permitted requests."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def send_counted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).setdefault("x-content-type-options", "nosniff")
            await send(message)

        protocol: Protocol = protocol_of(scope["path"])
        refused = self._refusal(scope)
        app = answer(error_body(protocol, *refused), status=refused[0]) if refused else self.app
        try:
            await app(scope, receive, send_counted)
        except Exception:
            log.exception("%s failed", scope["path"])
            await answer(error_body(protocol, 500, "the server failed: its log says why"), status=500)(
                scope, receive, send_counted
            )
        finally:
            self.metrics.request(scope["path"], status, time.perf_counter() - began)

    def _refusal(self, scope: Any) -> tuple[int, str] | None:
        if scope["path"] in _OPEN:
            return None
        headers = Headers(scope=scope)
        header = foreign(headers.getlist("host"), headers.getlist("origin"), self.names, self.welcome)
        if header:
            cure = "--name allows more" if header == "Host" else "--cors allows more"
            return 403, f"the {header} of the request is foreign here ({cure})"
        if not self.keys or (scope["method"] == "GET" and scope["path"] == "/"):  # the page asks for the key itself
            return None
        given = headers.get("authorization", "").removeprefix("Bearer ").encode()
        known = [hmac.compare_digest(given, key) for key in self.keys]
        return None if any(known) else (401, "send a key of this server: Authorization: Bearer KEY")
