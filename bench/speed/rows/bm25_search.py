"""BM25 without Java: queries to their 100 best documents, analysis included, by an index that is open.

The peer is bm25s with its numba backend, compiled before the clock starts, and its own English analysis; it gives rows
and scores, as ours does.  Each side indexes for itself, which is not timed.
"""

import tempfile
from pathlib import Path
from typing import ClassVar

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts

_TOP_K, _QUERIES = 100, 4_000


class Bm25Search(Row):
    lines = (
        Line("Java-free BM25 search", "noisyir", "bm25s", "bm25s with numba", at_least=1.0, unit="queries"),
        Line("Java-free BM25 search", "noisyir", "before_the_work", "noisyir before", unit="queries"),
    )
    size = 10_000
    turns = 3
    needs: ClassVar = {"bm25s": ("bm25s", "numba", "Stemmer")}
    before = frozenset({"before_the_work"})
    grows = True

    def noisyir(self, work: Work) -> Taken:
        import pyarrow as pa

        from noisyir.engine.runtime import Runtime
        from noisyir.retrieval.bm25 import build_lexical_index, open_lexical_index
        from noisyir.retrieval.settings import Bm25Params

        passages, queries = _read(work)
        ids = [f"d{number}" for number in range(len(passages))]
        batch = pa.record_batch({"doc_id": ids, "title": [""] * len(ids), "text": passages})
        with tempfile.TemporaryDirectory() as folder:
            build_lexical_index("bm25s", [batch], Path(folder), Runtime(threads=1))
            searcher = open_lexical_index(Path(folder), Bm25Params(), Runtime(threads=1))
        for _ in range(2):  # the first compiles
            with Stopwatch() as watch:
                searcher.search(queries, _TOP_K)
        return watch.taken(items=len(queries))

    before_the_work = noisyir

    def bm25s(self, work: Work) -> Taken:
        import Stemmer
        from bm25s import BM25, tokenize

        passages, queries = _read(work)
        english = {"stopwords": "english", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
        index = BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
        index.index(tokenize(passages, **english), show_progress=False)
        for _ in range(2):
            with Stopwatch() as watch:
                index.retrieve(tokenize(queries, **english), k=_TOP_K, show_progress=False)
        return watch.taken(items=len(queries))


def _read(work: Work) -> tuple[list[str], list[str]]:
    texts = Texts.read(work.texts)
    return texts.some_passages(work.size), texts.queries[:_QUERIES]
