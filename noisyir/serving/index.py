"""A served index: documents in memory, ranked by vectors, by BM25 or by both."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from noisyir.app.lookup import Indexed, terms_of
from noisyir.app.systems import System
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.models.text_tokenizer import passage_text
from noisyir.retrieval.bm25 import LexicalSearcher, open_lexical_index
from noisyir.retrieval.fusion import candidates_of, fused_run, fused_scores
from noisyir.retrieval.settings import Bm25Params, SearchParams
from noisyir.retrieval.stages.bm25 import BM25
from noisyir.retrieval.texts import Hits, Vectors, run_table
from noisyir.retrieval.vector_search import Index, best, dimension_of, open_vectors
from noisyir.serving.options import ServeOptions


class Embedded(NamedTuple):
    """Vectors (text, dim) of some texts, and the number of tokens read."""

    vectors: Vectors
    tokens: int


class Ranking(NamedTuple):
    """Document rows, best first, and their scores."""

    rows: list[int]
    scores: list[float]


class ServedIndex:
    """Documents and the systems that search them: `vectors`, and `bm25` and `hybrid` if they were built.

    `hybrid` is the system from the run that kept the model; None if it fused nothing.
    """

    def __init__(self, store: Store, found: Indexed, options: ServeOptions, hybrid: System | None) -> None:
        builds, search = store.builds.all(), SearchParams()
        self.ref = found.index.ref("index")
        table = store.builds.table(found.corpus, ("doc_id", "doc_row", "title", "text")).sort_by("doc_row")
        self._columns = {name: table[name].combine_chunks() for name in ("doc_id", "title", "text")}
        self.dimensions = dimension_of(store.builds.folder(self.ref))
        self._vectors: Index = open_vectors(
            store.builds.folder(self.ref), probes=search.probes, breadth=search.breadth,
            device=options.device, threads=options.cpu_threads, few_queries=True,
        )  # fmt: skip
        self._terms: LexicalSearcher | None = None
        if terms := terms_of(builds, found.corpus):
            asked = [meta for meta in builds if meta.stage == BM25.name]
            of = [meta for meta in asked if dict(meta.input_refs())["lexical_index"] == terms.ref("lexical_index")]
            bm25 = Bm25Params(**(of[-1].params if of else {}))
            runtime = Runtime(threads=options.cpu_threads)
            self._terms = open_lexical_index(store.builds.folder(terms.ref("lexical_index")), bm25, runtime)
        fused = hybrid.fused if hybrid else None
        self._fusion: dict[str, Any] = store.builds.table(fused.ref("fusion")).to_pylist()[0] if fused else {}
        self._depth = int(hybrid.bm25.params["top_k"]) if hybrid and hybrid.bm25 else 0

    def __len__(self) -> int:
        return len(self._columns["doc_id"])

    @property
    def systems(self) -> list[str]:
        """Names of the systems that can rank the documents."""
        return ["vectors", *(["bm25"] if self._terms else []), *(["hybrid"] if self._terms and self._fusion else [])]

    def depth(self, k: int) -> int:
        """Number of candidates that the hybrid takes from each side for its best k."""
        return max(k, self._depth)

    def fused(self, terms: Sequence[Ranking], vectors: Sequence[Ranking], ks: Sequence[int]) -> list[Ranking]:
        """Fuse two rankings per query as the run fused them."""
        how, ids = self._fusion, self._columns["doc_id"]
        queries = pa.array([f"{number:06}" for number in range(len(ks))])

        def run(found: Sequence[Ranking]) -> pa.Table:
            rows = pa.array([row for ranking in found for row in ranking.rows], pa.int64())
            scores = np.array([score for ranking in found for score in ranking.scores], np.float32)
            return run_table(queries, Hits(np.array([len(ranking.rows) for ranking in found]), ids.take(rows), scores))

        found = candidates_of(run(terms), run(vectors))
        scores = fused_scores(found, how["by"], how["weight"], how["k"])
        best_of = fused_run(found, scores, max(ks)).to_pydict()
        rankings = [Ranking([], []) for _ in ks]
        for query, name, score in zip(*(best_of[column] for column in ("query_id", "doc_id", "score")), strict=True):
            rankings[int(query)].rows.append(self.row_of[name])
            rankings[int(query)].scores.append(score)
        return [Ranking(rows[:k], kept[:k]) for (rows, kept), k in zip(rankings, ks, strict=True)]

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of each document by its id."""
        return {name: row for row, name in enumerate(self._columns["doc_id"].to_pylist())}

    def by_vectors(self, queries: Vectors, ks: Sequence[int]) -> list[Ranking]:
        """Rank documents by vector similarity."""
        scores, rows = best(self._vectors, queries, max(ks))
        found = [min(k, int((row >= 0).sum())) for k, row in zip(ks, rows, strict=True)]
        return [Ranking(rows[n, :k].tolist(), scores[n, :k].tolist()) for n, k in enumerate(found)]

    def by_terms(self, queries: Sequence[str], ks: Sequence[int]) -> list[Ranking]:
        """Rank documents by BM25."""
        assert self._terms is not None
        hits = self._terms.search(queries, max(ks))
        rows, scores = [self.row_of[name] for name in hits.doc_ids.to_pylist()], hits.scores.tolist()
        ends = np.cumsum(hits.counts).tolist()
        places = [slice(end - n, end - n + min(n, k)) for n, end, k in zip(hits.counts, ends, ks, strict=True)]
        return [Ranking(rows[place], scores[place]) for place in places]

    def texts(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """doc_id, title and text of each document."""
        return [{name: column[row].as_py() for name, column in self._columns.items()} for row in rows]

    def passage(self, row: int) -> str:
        """The text of a document as the model reads it."""
        (found,) = self.texts([row])
        return passage_text(found["title"], found["text"])
