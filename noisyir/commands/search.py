"""`noisyir search`: ask a trained model, over the corpus that it was indexed with."""

from __future__ import annotations

from typing import Annotated

from noisyir.commands import Json, Model, StoreUrl, argument, open_store, option, print_json
from noisyir.errors import ConfigError

SNIPPET = 300  # characters of a document that a terminal shows


def run(
    model: Model,
    query: Annotated[str, argument("QUERY", "what to look for")],
    k: Annotated[int, option("N", "documents shown", "-k")] = 5,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Search with a trained model.

    example: noisyir search demo "parse an ISO date"
    """
    from rich.markup import escape

    from noisyir.app.answering import answer
    from noisyir.app.console import stdout_console
    from noisyir.app.lookup import find_model, search_inputs

    if k < 1 or not query.strip():
        raise ConfigError("search needs a query with words in it, and -k of at least 1")
    opened = open_store(store)
    found = find_model(opened, model)
    index, corpus = search_inputs(opened, found)
    hits = answer(opened, found, index, corpus, query=query, k=k)
    if as_json:
        return print_json({"query": query, "model": found.key, "hits": hits})
    out = stdout_console()
    for hit in hits:
        out.print(f"[bold]{hit['rank']}[/]  {hit['score']:.4f}  [cyan]{escape(hit['doc_id'])}[/]")
        text = f"{hit['title']}  {hit['text']}".strip()
        out.print(escape(text if len(text) <= SNIPPET else text[: SNIPPET - 1] + "…") + "\n")
    return 0
