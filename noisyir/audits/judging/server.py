"""The page's server: on the loopback address, for holders of the token, and for no foreign page."""

import hmac
import json
import os
import re
import secrets
import socket
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from markupsafe import Markup

from noisyir.audits.judging.pairs_to_judge import PairsToJudge
from noisyir.audits.judging.session import JudgingSession, random_order
from noisyir.audits.own_pages import LOOPBACK, OwnPage, foreign
from noisyir.audits.page import identity, json_for_html
from noisyir.base.errors import DataError, MissingPackageError, NoisyirError, install_hint
from noisyir.base.pages.cells import templates

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


HOST = "127.0.0.1"
_LARGEST_BODY = 64 * 1024
_MOST_PAIRS = 50
_VERDICTS = ("wrong", "clean", "unclear")
_ROOM = "noisyir.audits"
_STYLES = ("report.css", "audit.css", "judge.css")
_SERVED = OwnPage(_ROOM, ("texts.js", "judge.js", "judge_server.js"), _STYLES)
_ALONE = OwnPage(_ROOM, ("texts.js", "judge.js", "judge_alone.js"), _STYLES)
_PAIRS_ALONE = 200  # of a page without a server: four times as many as give a first rate
_ACCESS = "judging.json"  # next to the judgements while a session is open
_LAST_PORT, _TOKEN = 65535, re.compile(r"[\w-]{32}", re.ASCII)  # as token_urlsafe(24) makes it

Body = dict[str, Any]
Call = Callable[[JudgingSession, Body], Any]


def judging_app(session: JudgingSession, token: str, finish: Callable[[], Body]) -> "Starlette":
    """The page and its calls, all below /TOKEN/; `finish` ends the session and returns its result."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.routing import Route

    async def show(request: "Request") -> "Response":
        return HTMLResponse(page(session.pairs.common))

    async def read(request: "Request") -> "Response":
        count = request.query_params.get("count", "10")
        wanted = min(int(count[:9]), _MOST_PAIRS) if count.isdecimal() else 1
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
        raise DataError("audits.page_bad_verdict", verdicts=", ".join(_VERDICTS))
    if replacement is not None and not session.pairs.offers(_pair(body), replacement):
        raise DataError("audits.page_bad_replacement")
    session.answer(_pair(body), verdict, replacement)


def _undo(session: JudgingSession, body: Body) -> Body | None:
    shown = session.undo(_pair(body) if body else None)
    return None if shown is None else shown.as_json()


def _pair(body: Body) -> tuple[str, str]:
    pair = body.get("query_id"), body.get("doc_id")
    if not (isinstance(pair[0], str) and isinstance(pair[1], str)):
        raise DataError("audits.page_bad_pair")
    return pair[0], pair[1]


async def _body(request: "Request") -> Body | None:
    """The JSON object in the request; None if it is none or too large."""
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
    """Why a request is refused (status and reason); None if it is not.

    It must come from the page itself, and a change must be JSON, which no form can send.
    """
    header = foreign(headers.getlist("host"), headers.getlist("origin"), LOOPBACK)
    if header:
        return (421, "this server has another name") if header == "Host" else (403, "it comes from another page")
    given = path.split("/")[1] if path.startswith("/") else ""
    if not hmac.compare_digest(given.encode(), token.encode()):
        return 403, "the address lacks the session's token: open the one that the terminal shows"
    kind = headers.get("content-type", "").split(";")[0].strip()
    if method not in ("GET", "HEAD") and kind != "application/json":
        return 415, "send application/json"
    return None


def _guards(token: str) -> list[Any]:
    from starlette.datastructures import MutableHeaders
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    class Guard:
        """Refuses requests from elsewhere than the session's own page, and adds the page's headers."""

        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def send_guarded(message: Any) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(_SERVED.headers)
                await send(message)

            request = Request(scope)
            refused = refusal(request.method, request.url.path, request.headers, token)
            app = JSONResponse({"error": refused[1]}, refused[0]) if refused else self.app
            await app(scope, receive, send_guarded)

    return [Middleware(Guard)]


def page(common: Sequence[str]) -> str:
    """The page as HTML text; common: words that are not marked as shared."""
    return _rendered(_SERVED, {"common": common})


def page_alone(pairs: PairsToJudge, seed: int, command: str) -> str:
    """The page as a file of its own, with the first pairs of a session's random order; the browser keeps the answers.

    `seed` is the session's, for the same pairs; `command` takes the saved answers back.
    """
    order = random_order(pairs.scores, np.random.default_rng(seed))
    rows = order.rows[:_PAIRS_ALONE].tolist()
    pairs.prepare(rows)
    drawn = [
        {**pairs.shown(row).as_json(), "weight": weight}
        for row, weight in zip(rows, order.weights.tolist(), strict=False)
    ]
    data = {"common": pairs.common, "id": identity(pairs.audit), "pairs": drawn, "command": command}
    return _rendered(_ALONE, data)


def _rendered(page: OwnPage, data: Body) -> str:
    alone = page is _ALONE
    return (
        templates(_ROOM)
        .get_template("judge.html")
        .render(
            style=page.style,
            script=page.script,
            data=Markup(json_for_html(data)),
            policy=Markup(page.policy if alone else ""),
            alone=alone,
        )
    )


@dataclass(frozen=True)
class Access:
    """The page's port, and the token that admits a judge."""

    port: int
    token: str

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The access of a killed session, so that an open page goes on; else a new one."""
        try:
            found = json.loads((folder / _ACCESS).read_text())
            port, token = found["port"], found["token"]
            if type(port) is int and 0 < port <= _LAST_PORT and _TOKEN.fullmatch(token):
                return cls(port, token)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        return cls(0, secrets.token_urlsafe(24))

    def keep(self, folder: Path) -> None:
        """Write it for the owner's eyes only."""
        path = folder / _ACCESS
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.port}/{self.token}/"


def has_display() -> bool:
    """Whether the user would see a browser that this process opens."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def serve_page(
    session: JudgingSession, folder: Path, summary: Callable[[], str], announce: Callable[[str], None]
) -> None:
    """Serve the session's page until it is finished there, or interrupted.

    `summary` is the page's last text; `announce` shows a line to the user.

    Raises:
        MissingPackageError: If starlette or uvicorn is not installed.
    """
    with MissingPackageError.wrapping("audits.page_package_missing", ImportError, install_hint=install_hint("judge")):
        import uvicorn
        from starlette.applications import Starlette  # noqa: F401
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
    """A socket on the wanted port; if that is taken, on another, with a new token."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, wanted.port))
    except OSError:
        wanted = Access(0, secrets.token_urlsafe(24))
        listening.bind((HOST, 0))
    listening.listen()  # the announced address may be called before the server is up
    return listening, Access(listening.getsockname()[1], wanted.token)
