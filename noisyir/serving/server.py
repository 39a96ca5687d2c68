"""The server: its processes and shutdown, the champion that it follows, and the Model Context Protocol on stdin."""

import asyncio
import gc
import json
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisyir import __version__
from noisyir.audits.own_pages import LOOPBACK
from noisyir.base.errors import ConfigError, MissingPackageError, NoisyirError, install_hint
from noisyir.engine.store import open_store
from noisyir.registry.kinds import RETRIEVER
from noisyir.registry.registry import CHAMPION
from noisyir.registry.standing import standing
from noisyir.serving.loading import FOLLOWED, ServedModel
from noisyir.serving.options import ServeOptions

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from noisyir.serving.endpoints import Endpoints

log = logging.getLogger("noisyir")

_OPTIONS = "NOISYIR_SERVE"  # the options of a server's processes
_SHORTEST_KEY = 16
_MOST_FOUND = 50  # documents that a program is given
_GRACE_SECONDS = 30  # that requests have which were begun when the end comes


def serve(options: ServeOptions, host: str, port: int, workers: int, announce: Callable[[str], None]) -> None:
    """Serve until a signal; requests in progress are answered.

    Raises:
        ConfigError: If the server would be open to everyone.
        MissingPackageError: If a package of the extra `serve` is missing.
    """
    try:
        import uvicorn

        from noisyir.serving import endpoints  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "serving.serving_needs", error=error.name, install_hint=install_hint("serve")
        ) from error
    if host not in LOOPBACK and not options.key_file:
        raise ConfigError("serving.open_host", host=host)
    keys_of(options)
    how: dict[str, Any] = {
        "host": host, "port": port, "log_level": "warning", "access_log": False, "server_header": False,
        "timeout_graceful_shutdown": _GRACE_SECONDS, "lifespan": "on",
    }  # fmt: skip
    place = f"http://{'[::1]' if host == '::1' else host}:{port}"
    if workers == 1:
        app = application(options)
        announce(f"{place} answers: a search page there, OpenAI's calls below {place}/v1 (Ctrl-C ends)")
        uvicorn.run(app, **how)
        return
    threads = max(1, options.cpu_threads // workers)
    options = replace(options, threads=options.threads or threads)
    ServedModel(options)  # reports its faults here, once
    shared = tempfile.mkdtemp(prefix="noisyir-metrics-")
    os.environ |= {_OPTIONS: json.dumps(asdict(options)), "PROMETHEUS_MULTIPROC_DIR": shared}
    announce(f"{place} answers soon, by {workers} processes (Ctrl-C ends)")
    try:
        uvicorn.run("noisyir.serving.server:from_environment", factory=True, workers=workers, **how)
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def from_environment() -> "Starlette":
    """The application of one of several processes."""
    given: dict[str, Any] = json.loads(os.environ[_OPTIONS])
    return application(ServeOptions(**given))


def application(options: ServeOptions) -> "Starlette":
    """The application, its model loaded."""
    from noisyir.serving.endpoints import Endpoints, serving_app
    from noisyir.serving.live import LiveModel
    from noisyir.serving.traffic import Metrics

    keys, metrics = keys_of(options), Metrics()
    version = champion_version(options) if options.follow else None
    made = Endpoints(LiveModel(ServedModel(options), options, metrics), metrics, has_key=bool(keys))

    @asynccontextmanager
    async def lifespan(app: "Starlette") -> AsyncIterator[None]:
        gc.collect()
        gc.freeze()  # nothing that was loaded becomes garbage: it need not be looked at again
        following = asyncio.create_task(follow(made, version)) if options.follow else None
        yield
        if following:
            following.cancel()

    return serving_app(made, keys, lifespan)


def keys_of(options: ServeOptions) -> list[str]:
    """Keys from the key file, one per line.

    Raises:
        ConfigError: If others can read the file, or a key is short.
    """
    if options.key_file is None:
        return []
    path = Path(options.key_file)
    with ConfigError.wrapping("serving.unreadable_keys", OSError, UnicodeDecodeError, path=path):
        keys = path.read_text(encoding="utf-8").split()
        is_open = path.stat().st_mode & 0o007
    if is_open:
        raise ConfigError("serving.open_keys", path=path)
    if not keys or min(map(len, keys)) < _SHORTEST_KEY or not all(key.isascii() for key in keys):
        how = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        raise ConfigError("serving.short_key", path=path, shortest_key=_SHORTEST_KEY, how=how)
    return keys


def champion_version(options: ServeOptions) -> str | None:
    """Version of the current champion, if there is one."""
    home = open_store(options.store).home
    found = (row for row in standing(home) if row["name"] == RETRIEVER.name and CHAMPION in row["aliases"])
    return next((str(row["version"]) for row in found), None)


async def follow(endpoints: "Endpoints", version: str | None) -> None:
    """Switch to each new champion once it is loaded; if loading fails, keep the last one."""
    from noisyir.serving.live import LiveModel

    options = endpoints.options
    assert options.follow is not None
    while True:
        await asyncio.sleep(options.follow)
        try:
            newest = await asyncio.to_thread(champion_version, options)
            if newest is None or newest == version:
                continue
            model = await asyncio.to_thread(ServedModel, replace(options, index=endpoints.live.model.index is not None))
        except NoisyirError as error:
            log.warning("the champion is not followed for now, v%s answers on: %s", version, error)
            continue
        version = newest
        endpoints.answer_with(LiveModel(model, options, endpoints.metrics))
        log.warning("%s v%s answers from now on", FOLLOWED, version)


# The Model Context Protocol ----------------------------------------------------------------------------------


def speak(options: ServeOptions) -> None:
    """Serve MCP until stdin ends."""
    tools(ServedModel(options)).run("stdio")


def tools(model: ServedModel) -> Any:
    """An MCP server with `audit_rate`, and `search` if the model has an index."""
    with MissingPackageError.wrapping("serving.mcp_needs", ImportError, install_hint=install_hint("serve")):
        from mcp.server.mcpserver import MCPServer
    server = MCPServer("noisyir", version=__version__, log_level="WARNING")

    def search(query: str, k: int = 5, system: str = model.default) -> list[dict[str, Any]]:
        """The k documents that answer the query best, each with doc_id, title, text and score.

        system: vectors (the trained model), bm25, or hybrid (both).
        """
        index = model.index
        if index is None or system not in index.systems or not 1 <= k <= _MOST_FOUND or not query.strip():
            known = ", ".join(index.systems) if index else "none"
            raise NoisyirError("serving.bad_search", most_found=_MOST_FOUND, known=known)
        (found,) = model.search(system, [(query, k)])
        return [{**text, "score": score} for text, score in zip(index.texts(found.rows), found.scores, strict=True)]

    def audit_rate() -> dict[str, Any]:
        """The share of the model's training pairs that are wrong, with its interval; null, and why, if not judged."""
        rate: dict[str, Any] = model.facts["audit"]
        return rate

    server.tool()(audit_rate)
    if model.index:
        server.tool()(search)
    return server
