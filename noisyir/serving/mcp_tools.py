"""Two tools for programs that speak the Model Context Protocol on a process's stdin and stdout; nothing listens."""

from typing import Any

from noisyir import __version__
from noisyir.errors import MissingPackageError, NoisyirError
from noisyir.serving.loading import ServedModel, ServeOptions

_MOST = 50


def speak(options: ServeOptions) -> None:
    """Answer until stdin ends."""
    tools(ServedModel(options)).run("stdio")


def tools(model: ServedModel) -> Any:
    """A server with `audit_rate`, and `search` where the model has an index."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise MissingPackageError("--mcp needs pip install 'noisyir[serve]'") from error
    server = MCPServer("noisyir", version=__version__, log_level="WARNING")

    def search(query: str, k: int = 5, system: str = model.default) -> list[dict[str, Any]]:
        """The k documents that answer the query best, each with doc_id, title, text and score.

        system: vectors (the trained model), bm25, or hybrid (both).
        """
        index = model.index
        if index is None or system not in index.systems or not 1 <= k <= _MOST or not query.strip():
            known = ", ".join(index.systems) if index else "none"
            raise NoisyirError(f"search needs a query, k of 1 to {_MOST}, and a system of these: {known}")
        (asked,) = model.embed([([query], "query")])
        depth = index.depth(k) if system == "hybrid" else k
        (found,) = index.by_vectors([(asked.vectors[0], depth)])
        if system != "vectors":
            (by_terms,) = index.by_terms([(query, depth)])
            found = by_terms if system == "bm25" else index.fused(by_terms, found, k)
        return [{**index.document(row), "score": score} for row, score in zip(*found, strict=True)]

    def audit_rate() -> dict[str, Any]:
        """The share of the model's training pairs that are wrong, with its interval; null, and why, if not judged."""
        rate: dict[str, Any] = model.facts["audit"]
        return rate

    server.tool()(audit_rate)
    if model.index:
        server.tool()(search)
    return server
