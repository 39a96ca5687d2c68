"""`noisyir search`: ask a trained model, over the corpus that it was indexed with."""

import json
from argparse import Namespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.markup import escape

from noisyir.app.console import stdout_console
from noisyir.app.lookup import find_model, search_inputs
from noisyir.commands import open_store
from noisyir.engine.builds import Ref
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts, stream_parts
from noisyir.errors import ConfigError
from noisyir.retrieval.settings import SearchParams

SNIPPET = 300  # characters of a document that a terminal shows


def run(args: Namespace) -> int:
    """Print the best documents for one query."""
    if args.k < 1 or not args.query.strip():
        raise ConfigError("search needs a query with words in it, and -k of at least 1")
    store = open_store(args)
    model = find_model(store, args.model)
    index, corpus = search_inputs(store, model)
    hits = answer(store, model, index, corpus, query=args.query, k=args.k)
    if args.json:
        print(json.dumps({"query": args.query, "model": model.key, "hits": hits}, indent=2))
        return 0
    out = stdout_console()
    for hit in hits:
        out.print(f"[bold]{hit['rank']}[/]  {hit['score']:.4f}  [cyan]{escape(hit['doc_id'])}[/]")
        text = f"{hit['title']}  {hit['text']}".strip()
        out.print(escape(text if len(text) <= SNIPPET else text[: SNIPPET - 1] + "…") + "\n")
    return 0


def answer(store: Store, model: Ref, index: Ref, corpus: Ref, *, query: str, k: int) -> list[dict[str, Any]]:
    """The k best documents: rank, score, doc_id, title, text."""
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import embed_all
    from noisyir.retrieval.search import ids_by_row, open_vectors, search

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
