"""Queries that are documents themselves, as in duplicate questions: they answer nothing, and are no wrong answer."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.engine.stage import Job
from noisyir.engine.tables import semi_join


def own_documents(queries: pa.Table, corpus: Iterable[pa.RecordBatch], qrels: pa.Table | None = None) -> pa.Table:
    """Return (query_id, doc_id) of each document with the query's text, and of the query's id as a document's.

    An id that is a number tells nothing: queries and documents are often counted from 1.  A document without text is
    its title; case and outer spaces do not matter.  What `qrels` calls relevant is left out.
    """
    asked = pa.table({"query_id": queries["query_id"], "text": _plain(queries["text"])})
    named = asked["query_id"].filter(pc.invert(pc.match_substring_regex(asked["query_id"], r"^\d+$")))
    found = [pa.table([named, named], names=PAIR_KEY)]
    for batch in corpus:
        texts = _plain(pc.if_else(pc.equal(batch["text"], ""), batch["title"], batch["text"]))
        documents = pa.table({"doc_id": batch["doc_id"], "text": texts})
        same = documents.filter(pc.is_in(texts, value_set=asked["text"].combine_chunks()))
        if same.num_rows:
            found.append(asked.join(same, "text", join_type="inner").select(PAIR_KEY))
    own = pa.concat_tables(found)
    return own if qrels is None else own.filter(pa.array(~semi_join(own, qrels.filter(pc.field("relevance") >= 1))))


def without_own_documents(job: Job[Any], runs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The runs of a stage that reads queries and qrels, without hits that are the query itself, by its own corpus."""
    made = job.store.builds.meta(job.ref("queries"))
    there = "corpus" in made.artifacts
    corpus = job.store.builds.batches(made.ref("corpus"), ("doc_id", "title", "text")) if there else ()
    own = own_documents(job.table("queries"), corpus, job.table("qrels"))
    return {name: run.filter(pa.array(~semi_join(run, own))) for name, run in runs.items()}


def _plain(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts))
