"""`noisyir search`: ask a trained model, over the corpus that it was indexed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from noisyir.commands import Json, Model, StoreUrl, argument, open_store, option, print_json
from noisyir.errors import ConfigError

if TYPE_CHECKING:
    from noisyir.engine.builds import Ref
    from noisyir.engine.store import Store

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


def answer(store: Store, model: Ref, index: Ref, corpus: Ref, *, query: str, k: int) -> list[dict[str, Any]]:
    """The k best documents: rank, score, doc_id, title, text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from noisyir.engine.runtime import Runtime
    from noisyir.engine.tables import read_parts, stream_parts
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import embed_all
    from noisyir.retrieval.search import ids_by_row, open_vectors, search
    from noisyir.retrieval.settings import SearchParams

    encoder = load_bi_encoder(store.folder(model), "cpu")
    vectors = embed_all(encoder, encoder.tokenize([query], "query"), "query", batch_tokens=1)
    parts = store.parts(corpus)
    doc_ids = ids_by_row(read_parts(store.fs, parts, ("doc_id", "doc_row")))
    settings = SearchParams()
    opened = open_vectors(
        store.folder(index), probes=settings.probes, breadth=settings.breadth,
        device="cpu", threads=Runtime().cpu_threads,
    )  # fmt: skip
    found = search(opened, vectors, doc_ids, k)
    wanted = found.doc_ids.to_pylist()
    texts = {
        row["doc_id"]: row
        for batch in stream_parts(store.fs, parts, ("doc_id", "title", "text"), 65536)
        for row in batch.filter(pc.is_in(batch["doc_id"], pa.array(wanted, pa.string()))).to_pylist()
    }
    return [
        {"rank": rank, "score": float(score), **texts[doc_id]}
        for rank, (doc_id, score) in enumerate(zip(wanted, found.scores, strict=True), start=1)
    ]
