"""Search with a trained system: by vectors, BM25 or both, on the indexes built with it."""

from typing import TYPE_CHECKING, Any

from noisyir.app.systems import Indexes, System
from noisyir.engine.meta import Ref
from noisyir.engine.store import Store

if TYPE_CHECKING:
    import pyarrow as pa


def answer(store: Store, system: System, indexes: Indexes, *, query: str, k: int) -> list[dict[str, Any]]:
    """Return the k best documents: rank, score, doc_id, title, text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = _ranked(store, system, indexes, query, k)
    wanted = found["doc_id"].to_pylist()
    texts = {
        row["doc_id"]: row
        for batch in store.builds.batches(indexes.corpus, ("doc_id", "title", "text"))
        for row in batch.filter(pc.is_in(batch["doc_id"], pa.array(wanted, pa.string()))).to_pylist()
    }
    return [
        {"rank": rank, "score": score, **texts[doc_id]}
        for rank, (doc_id, score) in enumerate(zip(wanted, found["score"].to_pylist(), strict=True), start=1)
    ]


def _ranked(store: Store, system: System, indexes: Indexes, query: str, k: int) -> "pa.Table":
    """Return the run of one query; a hybrid uses as many candidates per side as its original run."""
    if system.fused is None or system.bm25 is None or system.model is None:
        return _by_vectors(store, system.model, indexes, query, k) if system.model else (
            _by_terms(store, system, indexes, query, k)
        )  # fmt: skip
    from noisyir.retrieval.fusion import candidates_of, fused_run, fused_scores

    depth = max(k, int(system.bm25.params["top_k"]))
    (how,) = store.builds.table(system.fused.ref("fusion")).to_pylist()
    found = candidates_of(
        _by_terms(store, system, indexes, query, depth), _by_vectors(store, system.model, indexes, query, depth)
    )
    return fused_run(found, fused_scores(found, how["by"], how["weight"], how["k"]), k)


def _by_terms(store: Store, system: System, indexes: Indexes, query: str, k: int) -> "pa.Table":
    import pyarrow as pa

    from noisyir.engine.runtime import Runtime
    from noisyir.retrieval.bm25 import open_lexical_index
    from noisyir.retrieval.settings import Bm25Params
    from noisyir.retrieval.texts import run_table

    assert indexes.terms is not None and system.bm25 is not None
    params = Bm25Params(**system.bm25.params)
    searcher = open_lexical_index(store.builds.folder(indexes.terms), params, Runtime(threads=1))
    return run_table(pa.array([query]), searcher.search([query], k))


def _by_vectors(store: Store, model: Ref, indexes: Indexes, query: str, k: int) -> "pa.Table":
    import pyarrow as pa

    from noisyir.engine.runtime import Runtime
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import embed_all
    from noisyir.retrieval.settings import SearchParams
    from noisyir.retrieval.texts import run_table, shortened
    from noisyir.retrieval.vector_search import dimension_of, ids_by_row, open_vectors, search

    assert indexes.vectors is not None
    encoder = load_bi_encoder(store.builds.folder(model), "cpu")
    folder = store.builds.folder(indexes.vectors)
    whole = embed_all(encoder, encoder.tokenize([query], "query"), "query", batch_tokens=1)
    vectors = shortened(whole, dimension_of(folder), cosine=encoder.similarity == "cosine")
    doc_ids = ids_by_row(store.builds.table(indexes.corpus, ("doc_id", "doc_row")))
    settings = SearchParams()
    opened = open_vectors(
        folder, probes=settings.probes, breadth=settings.breadth, device="cpu", threads=Runtime().cpu_threads,
    )  # fmt: skip
    return run_table(pa.array([query]), search(opened, vectors, doc_ids, k))
