"""The page's server: on this machine's own address alone, for whoever has the token, and for nobody else's page."""

import hmac
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from noisyir.app.judging.page import POLICY, page
from noisyir.app.judging.session import JudgingSession, Said
from noisyir.errors import DataError, NoisyirError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
_NAMES = {HOST, "localhost"}  # by which a browser may ask for it: any other is a name that leads here by a trick
_LARGEST_BODY = 64 * 1024
_MOST_PAIRS = 50
_VERDICTS = ("wrong", "clean", "unclear")
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Body = dict[str, Any]
Call = Callable[[JudgingSession, Body], Any]


def judging_app(session: JudgingSession, token: str, finish: Callable[[], Body]) -> "Starlette":
    """The page and what it calls, all below /TOKEN/.  finish: ends the session, and tells what it came to."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.routing import Route

    async def show(request: "Request") -> "Response":
        return HTMLResponse(page(session.pairs.common))

    async def read(request: "Request") -> "Response":
        count = request.query_params.get("count", "10")
        wanted = min(int(count), _MOST_PAIRS) if count.isdecimal() else 1
        shown = await run_in_threadpool(session.next_pairs, wanted)
        return JSONResponse({"pairs": [pair.as_json() for pair in shown], "state": session.state()})

    def posting(call: Call) -> Callable[["Request"], Awaitable["Response"]]:
        async def endpoint(request: "Request") -> "Response":
            body = await _body(request)
            if body is None:
                return JSONResponse({"error": "the request's body is no JSON object of this form"}, 400)
            try:
                found = await run_in_threadpool(call, session, body)
            except NoisyirError as error:
                return JSONResponse({"error": str(error)}, 422 if isinstance(error, DataError) else 507)
            return JSONResponse({"found": found, "state": session.state()})

        return endpoint

    calls: dict[str, Call] = {
        "answer": _answer,
        "undo": _undo,
        "skip": lambda session, body: session.skip(_pair(body)),
        "finish": lambda session, body: finish(),
    }
    routes = [Route("/{token}/", show, methods=["GET"]), Route("/{token}/pairs", read, methods=["GET"])]
    routes += [Route(f"/{{token}}/{name}", posting(call), methods=["POST"]) for name, call in calls.items()]
    return Starlette(routes=routes, middleware=_guards(token))


def _answer(session: JudgingSession, body: Body) -> None:
    verdict, replacement = body.get("verdict"), body.get("replacement")
    if verdict not in _VERDICTS or not isinstance(replacement, str | None):
        raise DataError(f"a verdict is one of {', '.join(_VERDICTS)}, a replacement a doc_id")
    session.answer(Said(_pair(body), verdict, replacement))


def _undo(session: JudgingSession, body: Body) -> Body | None:
    shown = session.undo(_pair(body) if body else None)
    return None if shown is None else shown.as_json()


def _pair(body: Body) -> tuple[str, str]:
    pair = body.get("query_id"), body.get("doc_id")
    if not (isinstance(pair[0], str) and isinstance(pair[1], str)):
        raise DataError("a pair has a query_id and a doc_id, both texts")
    return pair[0], pair[1]


async def _body(request: "Request") -> Body | None:
    """The JSON object that was sent; None where it is none, or too large."""
    sent = bytearray()
    async for chunk in request.stream():
        sent += chunk
        if len(sent) > _LARGEST_BODY:
            return None
    try:
        body = json.loads(sent)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def refusal(method: str, path: str, headers: Any, token: str) -> tuple[int, str] | None:
    """Why a request is not answered (status and reason), or None where it is.

    Another site's page can send requests here, and a name that it owns can be made to lead here (DNS rebinding): so the
    Host must be this machine's own, and the Origin, where a browser names one, the same; what changes anything must be
    JSON, which no form can send.
    """
    host = headers.get("host", "")
    if _name(host) not in _NAMES:
        return 421, "this server has another name"
    if headers.get("origin", f"http://{host}") != f"http://{host}":
        return 403, "the request comes from another page"
    given = path.split("/")[1] if path.startswith("/") else ""
    if not hmac.compare_digest(given.encode(), token.encode()):
        return 403, "the address lacks the session's token: open the one that the terminal shows"
    kind = headers.get("content-type", "").split(";")[0].strip()
    if method not in ("GET", "HEAD") and kind != "application/json":
        return 415, "send application/json"
    return None


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _guards(token: str) -> list[Any]:
    from starlette.datastructures import MutableHeaders
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    class Guard:
        """Refuses what does not come from the session's own page, and adds the headers that keep it to itself."""

        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def send_guarded(message: Any) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(_HEADERS)
                await send(message)

            request = Request(scope)
            refused = refusal(request.method, request.url.path, request.headers, token)
            app = JSONResponse({"error": refused[1]}, refused[0]) if refused else self.app
            await app(scope, receive, send_guarded)

    return [Middleware(Guard)]
