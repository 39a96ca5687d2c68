"""The best documents for a question, by a model and the index that was made with it."""

from typing import Any

from noisyir.engine.meta import Ref
from noisyir.engine.store import Store


def answer(store: Store, model: Ref, index: Ref, corpus: Ref, *, query: str, k: int) -> list[dict[str, Any]]:
    """The k best documents: rank, score, doc_id, title, text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from noisyir.engine.runtime import Runtime
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import embed_all
    from noisyir.retrieval.settings import SearchParams
    from noisyir.retrieval.vector_search import ids_by_row, open_vectors, search

    encoder = load_bi_encoder(store.builds.folder(model), "cpu")
    vectors = embed_all(encoder, encoder.tokenize([query], "query"), "query", batch_tokens=1)
    doc_ids = ids_by_row(store.builds.table(corpus, ("doc_id", "doc_row")))
    settings = SearchParams()
    opened = open_vectors(
        store.builds.folder(index), probes=settings.probes, breadth=settings.breadth,
        device="cpu", threads=Runtime().cpu_threads,
    )  # fmt: skip
    found = search(opened, vectors, doc_ids, k)
    wanted = found.doc_ids.to_pylist()
    texts = {
        row["doc_id"]: row
        for batch in store.builds.batches(corpus, ("doc_id", "title", "text"))
        for row in batch.filter(pc.is_in(batch["doc_id"], pa.array(wanted, pa.string()))).to_pylist()
    }
    return [
        {"rank": rank, "score": float(score), **texts[doc_id]}
        for rank, (doc_id, score) in enumerate(zip(wanted, found.scores, strict=True), start=1)
    ]
