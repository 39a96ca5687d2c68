"""BM25 by Anserini's indexer and searcher, called as Pyserini's `LuceneIndexer` and `LuceneSearcher` do.

Pyserini's own modules are not imported: they bring torch, want an OpenAI key, set up logging, and wrap every hit in a
Python object, which takes longer than the search.  Here Java writes a batch's hits as JSON and Arrow reads it.
"""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from noisyir.retrieval.java import java_class, lucene_errors
from noisyir.retrieval.texts import Hits, contents

_HIT = pa.struct([("docid", pa.string()), ("score", pa.float32())])
_AS_TABLE = pyarrow.json.ParseOptions(
    explicit_schema=pa.schema([("hits", pa.list_(_HIT))]), unexpected_field_behavior="ignore"
)


def build(documents: Iterable[pa.RecordBatch], folder: Path, *, threads: int, java_heap: str) -> int:
    """Index a stream of documents with several threads and return how many Lucene took.

    Segment ids, times and the split into segments differ from build to build; search results do not.
    """
    indexer_class = java_class("io.anserini.index.SimpleIndexer", java_heap)
    with lucene_errors("indexing"):
        indexer = indexer_class(str(folder), False, threads)
        indexed = 0
        for batch in documents:
            pairs = zip(batch["doc_id"].to_pylist(), contents(batch), strict=True)
            indexed += indexer.addRawDocuments([json.dumps({"id": name, "contents": text}) for name, text in pairs])
        indexer.close()
    (folder / "write.lock").unlink(missing_ok=True)
    return indexed


class Lucene:
    """An open Lucene index.

    Order and scores are Anserini's: by score, then document id; scores are rounded to four decimals, and equal ones
    then lowered by 1e-6 each so that they fall strictly.
    """

    def __init__(self, folder: Path, k1: float, b: float, threads: int, java_heap: str) -> None:
        self._class = partial(java_class, heap=java_heap)
        self._threads = threads
        # Lucene refuses queries with more terms than this, such as long docstrings.
        self._class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
        with lucene_errors(f"opening {folder}"):
            self._searcher = self._class("io.anserini.search.SimpleSearcher")(str(folder))
        self._searcher.set_bm25(k1, b)
        self._mapper = self._class("com.fasterxml.jackson.databind.ObjectMapper")()
        document = self._class("java.lang.Class").forName("org.apache.lucene.document.Document")
        self._mapper.configOverride(document).setIsIgnoredType(self._class("java.lang.Boolean")("true"))

    def search(self, queries: Sequence[str], top_k: int) -> Hits:
        """Find the best documents of all queries at once on several threads."""
        with lucene_errors("searching"):
            numbers = self._java_list([str(number) for number in range(len(queries))])
            found = self._searcher.batch_search(self._java_list(queries), numbers, top_k, self._threads)
            order = np.argsort(np.array(found.keySet().toArray(), dtype=np.int64))
            rows = self._as_arrow(found.values()).take(pa.array(order))
        hits = rows.flatten()
        return Hits(rows.value_lengths().to_numpy(), hits.field("docid"), hits.field("score").to_numpy())

    def _as_arrow(self, values: object) -> pa.Array:
        """Convert a Java collection of `ScoredDoc[]` to list<struct<docid, score>>, in its order."""
        from jnius import cast

        stream = self._class("java.io.ByteArrayOutputStream")()
        writer = self._mapper.writer().withRootValueSeparator('}\n{"hits":')
        sequence = writer.writeValues(cast("java.io.OutputStream", stream))
        sequence.writeAll(values)
        sequence.close()
        text = b"".join([b'{"hits":', stream.toByteArray().tostring(), b"}"])
        block = pyarrow.json.ReadOptions(block_size=len(text) + 1)  # a line may be longer than the default block
        table = pyarrow.json.read_json(pa.BufferReader(text), read_options=block, parse_options=_AS_TABLE)
        return table["hits"].combine_chunks()

    def _java_list(self, items: Sequence[str]) -> object:
        made = self._class("java.util.ArrayList")(len(items))
        for item in items:
            made.add(item)
        return made
