"""`noisyir serve`: serve a trained model through common APIs for embeddings, reranking and search."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from noisyir.base.errors import ConfigError
from noisyir.front.commands import StoreUrl, argument, experiment_names, flag, option

_DEFAULT_PORT = 8300
_MODEL = "a folder, an experiment's model, EXPERIMENT:SYSTEM, a key, or models:/NAME@ALIAS"

_Backend: TypeAlias = Literal["torch", "openvino", "openvino-qint8"]


def run(
    model: Annotated[str, argument("MODEL", _MODEL, experiment_names)],
    index: Annotated[bool | None, flag("--index/--no-index", "search, too (default: if there is an index)")] = None,
    host: Annotated[str, option("ADDRESS", "to listen at; others than loopback's need --key-file")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "to listen at")] = _DEFAULT_PORT,
    key_file: Annotated[str | None, option("FILE", "keys, one a line; a request must have one of them")] = None,
    name: Annotated[list[str] | None, option("HOST", "a name of this server for others (repeatable)")] = None,
    cors: Annotated[list[str] | None, option("ORIGIN", "a site with pages that may ask (repeatable)")] = None,
    workers: Annotated[int, option("N", "processes, each with a copy of the model")] = 1,
    threads: Annotated[int | None, option("N", "of each process (default: all cores, shared)")] = None,
    device: Annotated[str, option("DEVICE", "auto, cpu, cuda, cuda:1, ...")] = "auto",
    backend: Annotated[_Backend, option("torch|openvino|openvino-qint8", "of transformers")] = "torch",
    precision: Annotated[Literal["fp32", "bf16"], option("fp32|bf16", "of transformers")] = "fp32",
    wait_ms: Annotated[float, option("MS", "that a text waits for others, on a GPU a few")] = 0.0,
    max_items: Annotated[int, option("N", "texts of a request")] = 2048,
    max_tokens: Annotated[int, option("N", "tokens of a request")] = 1_000_000,
    max_bytes: Annotated[int, option("N", "bytes of a request")] = 8 << 20,
    max_waiting: Annotated[int, option("N", "texts that may wait; more are sent away (429)")] = 8192,
    follow_champion: Annotated[bool, flag("--follow-champion", "answer with each new champion")] = False,
    every: Annotated[float, option("SECONDS", "between two looks for a champion")] = 10.0,
    force: Annotated[bool, flag("--force", "also a model that is no better than what needs no training")] = False,
    mcp: Annotated[bool, flag("--mcp", "speak MCP on stdin and stdout in place of HTTP")] = False,
    store: StoreUrl = None,
) -> int:
    """Serve a trained model to clients of OpenAI, TEI, Cohere and Jina.

    example: noisyir serve demo
    """
    import sys

    from noisyir.serving.loading import FOLLOWED
    from noisyir.serving.options import ServeOptions
    from noisyir.serving.server import serve, speak

    if not 0 < port < 1 << 16:
        raise ConfigError("front.bad_port", port=port)
    if min(workers, max_items, max_tokens, max_bytes, max_waiting, threads or 1) < 1 or wait_ms < 0 or every <= 0:
        raise ConfigError("front.bad_limits")
    if follow_champion and model not in (FOLLOWED, "noisyir-retriever", "retriever"):
        raise ConfigError("front.follow_of_other_model", followed=FOLLOWED, model=model)
    options = ServeOptions(
        model, store, index, backend, precision, device, threads, wait_ms, max_items, max_tokens, max_bytes,
        max_waiting, key_file, tuple(name or ()), tuple(cors or ()), every if follow_champion else None, force,
    )  # fmt: skip
    if mcp:
        speak(options)
        return 0
    serve(options, host, port, workers, lambda line: print(line, file=sys.stderr, flush=True))
    return 0
