"""The analysis of a corpus for BM25 without Java, to the file that holds its terms; the peer writes no file."""

import tempfile
from pathlib import Path
from typing import ClassVar

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts


class Bm25Analysis(Row):
    lines = (
        Line("corpus analysis for BM25", "noisyir", "before_the_work", "noisyir before", at_least=4, unit="documents"),
        Line("corpus analysis for BM25", "noisyir", "bm25s", "bm25s' tokenize, stemmed", unit="documents"),
    )
    size = 10_000
    turns = 3
    needs: ClassVar = {"bm25s": ("bm25s", "Stemmer")}
    before = frozenset({"before_the_work"})
    grows = True

    def noisyir(self, work: Work) -> Taken:
        import pyarrow as pa

        from noisyir.engine.runtime import Runtime
        from noisyir.retrieval.bm25 import build_lexical_index

        passages = Texts.read(work.texts).some_passages(work.size)
        ids = [f"d{number}" for number in range(len(passages))]
        batch = pa.record_batch({"doc_id": ids, "title": [""] * len(ids), "text": passages})
        with tempfile.TemporaryDirectory() as folder, Stopwatch() as watch:
            build_lexical_index("bm25s", [batch], Path(folder), Runtime(threads=1))
        return watch.taken(items=len(passages))

    before_the_work = noisyir

    def bm25s(self, work: Work) -> Taken:
        import Stemmer
        from bm25s import tokenize

        passages = Texts.read(work.texts).some_passages(work.size)
        with Stopwatch() as watch:
            tokenize(passages, stopwords="english", stemmer=Stemmer.Stemmer("english"), show_progress=False)
        return watch.taken(items=len(passages))
