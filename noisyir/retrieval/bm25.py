"""BM25 behind one protocol: Lucene by Pyserini, or bm25s without Java.

Both score with Lucene's BM25, per query term and document (Kamphuis et al., ECIR 2020; lengths above 39 are rounded):

    ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 * (1 - b + b * length / mean length))
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from noisyir.engine.runtime import Runtime
from noisyir.retrieval.settings import Bm25Params
from noisyir.retrieval.texts import Hits

Engine = Literal["pyserini", "bm25s"]
_ABOUT = "about.json"


class LexicalSearcher(Protocol):
    """An open inverted index."""

    def search(self, queries: Sequence[str], top_k: int) -> Hits:
        """Find the best documents of each query; none if no term of the query is left."""


def build_lexical_index(engine: Engine, documents: Iterable[pa.RecordBatch], folder: Path, runtime: Runtime) -> int:
    """Index documents (doc_id, title, text) into an empty folder and return how many were indexed.

    Documents without an indexable character are left out.
    """
    if engine == "pyserini":
        from noisyir.retrieval import lucene

        indexed = lucene.build(documents, folder / engine, threads=runtime.cpu_threads, java_heap=runtime.java_heap)
    else:
        from noisyir.retrieval import numpy_bm25

        indexed = numpy_bm25.build(documents, folder / engine)
    (folder / _ABOUT).write_text(json.dumps({"documents": indexed, "engine": engine}))
    return indexed


def open_lexical_index(folder: Path, params: Bm25Params, runtime: Runtime) -> LexicalSearcher:
    """Open an index of `build_lexical_index` with the engine that built it; Lucene always has rounded lengths."""
    engine = json.loads((folder / _ABOUT).read_text())["engine"]
    if engine == "pyserini":
        from noisyir.retrieval.lucene import Lucene

        return Lucene(folder / engine, params.k1, params.b, runtime.cpu_threads, runtime.java_heap)
    from noisyir.retrieval.numpy_bm25 import NumpyBm25

    return NumpyBm25(folder / engine, k1=params.k1, b=params.b, rounded=params.lengths == "rounded")
