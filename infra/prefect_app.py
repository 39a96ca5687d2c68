"""Prefect's server for its own pages and for programs: what a page of another web site asks is refused.

usage: python -m infra.prefect_app HOST PORT NAME[,NAME...]        settings: those of Prefect, in the environment
"""

import sys
from collections.abc import Sequence

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from noisyir.audits.own_pages import foreign, name_in

_REFUSED = "noisyir: this server answers its own pages and programs alone (NOISYIR_ALLOWED_HOSTS names more hosts)\n"


class OwnPages:
    """An ASGI application behind a check of Host and Origin; its pages may call their own server only.

    names: of hosts, perhaps with a port, in which a proxy in front of it is named; their pages are its own, too.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str], port: int) -> None:
        self.app = app
        self.names = {name for host in names if (name := name_in(host))}
        hosts = {f"{name}{suffix}" for name in names for suffix in ("", f":{port}")}
        self.origins = {f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts}
        # Prefect's page asks a service of statistics for settings, whatever the server's are.
        sockets = {origin.replace("http", "ws", 1) for origin in self.origins}
        self.policy = f"connect-src 'self' {' '.join(sorted(self.origins | sockets))}".encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is from here, and refuse the rest."""
        if scope["type"] not in ("http", "websocket") or self.is_own(scope["headers"]):
            await self.app(scope, receive, self.with_policy(send) if scope["type"] == "http" else send)
        else:
            refused = PlainTextResponse(_REFUSED, 403) if scope["type"] == "http" else WebSocketClose(1008)
            await refused(scope, receive, send)

    def with_policy(self, send: Send) -> Send:
        """Send answers with the policy of whom a page may call."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"content-security-policy", self.policy)]
            await send(message)

        return sent

    def is_own(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether every Host is one of this server's names, and every Origin one of its pages."""
        hosts, origins = ([v.decode("latin-1") for name, v in headers if name == kind] for kind in (b"host", b"origin"))
        return foreign(hosts, origins, self.names, self.origins) is None


def main(host: str, port: str, names: str) -> None:
    """Serve until a signal ends it, as `prefect server start` does."""
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    server = get_current_settings().server
    uvicorn.run(
        OwnPages(create_app(final=True), names.split(","), int(port)),
        host=host,
        port=int(port),
        timeout_keep_alive=server.api.keepalive_timeout,
        ws_ping_interval=server.api.websocket_ping_interval,
        ws_ping_timeout=server.api.websocket_ping_timeout,
        log_level=server.logging_level.lower(),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
