"""`noisyir search`: query a trained model over its indexed corpus."""

from __future__ import annotations

from typing import Annotated

from noisyir.base.errors import ConfigError
from noisyir.front.commands import Json, StoreUrl, argument, experiment_names, flag, open_store, option, print_json

_SYSTEM = "an experiment's model, a key, models:/NAME@ALIAS, or EXPERIMENT:SYSTEM: demo:bm25, demo:hybrid, demo:best"
SNIPPET = 300  # characters per document in a terminal


def run(
    model: Annotated[str, argument("SYSTEM", _SYSTEM, experiment_names)],
    query: Annotated[str, argument("QUERY", "what to look for")],
    k: Annotated[int, option("N", "documents shown", "-k")] = 5,
    force: Annotated[bool, flag("--force", "also with a model that is no better than what needs no training")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Search with a trained model, with BM25, or with both.

    example: noisyir search demo:best "parse an ISO date"
    """
    from rich.markup import escape

    from noisyir.app.console import print_text, stdout_console
    from noisyir.app.system_search import answer
    from noisyir.app.systems import find_system, indexes_of
    from noisyir.base.pages.cells import shorten

    if k < 1 or not query.strip():
        raise ConfigError("front.empty_query_or_k")
    opened = open_store(store)
    system = find_system(opened, model)
    if system.doubt and not force:
        raise ConfigError("front.doubtful_search", doubt=system.doubt)
    hits = answer(opened, system, indexes_of(opened, system), query=query, k=k)
    if as_json:
        return print_json({"query": query, "model": system.model and system.model.key, "hits": hits})
    if not hits:
        print(f"nothing found: no document shares a word with {query!r}, and {model} looks for words alone")
        return 0
    out = stdout_console()
    for hit in hits:
        out.print(f"[bold]{hit['rank']}[/]  {hit['score']:.4f}  [cyan]{escape(hit['doc_id'])}[/]")
        text = f"{hit['title']}  {hit['text']}".strip()
        print_text(out, f"{shorten(text, SNIPPET)}\n")
    return 0
