"""Export of an experiment teacher's scored lists, in any of the five shapes that `teacher=file` reads."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow.compute as pc

from noisyir.app.lookup import kept_by_run
from noisyir.base.errors import ConfigError, StoreError, suggested
from noisyir.data.examples import Passage
from noisyir.data.scored_lists import SHAPES, ScoredList, write_scored_lists
from noisyir.engine.meta import Meta
from noisyir.engine.store import Store
from noisyir.engine.tables import pair_ids

SUFFIX = "-scores.jsonl"
KNOWN = (*SHAPES, "trec")


def export(store: Store, name: str, target: Path, licence: str | None, shape: str = "ids") -> str:
    """Write the lists in a shape, and describe how to read them back.

    Raises:
        ConfigError: If the shape is unknown.
        StoreError: If the experiment has no scored lists.
    """
    if shape not in KNOWN:
        raise ConfigError("app.unknown_shape", shape=shape, others=suggested(shape, KNOWN))
    meta = kept_by_run(store, name, "teacher_scores")
    if meta is None:
        raise StoreError("app.no_scored_lists", name=name)
    lists = list(_lists(store, meta))
    write_scored_lists(shape, lists, target)
    longest = max(len(one.documents) for one in lists)
    shorter = sum(len(one.documents) < longest for one in lists) if shape == "sentence_transformers" else 0
    said = f"; {shorter:,} shorter ones are left out, as its losses want equal lengths" if shorter else ""
    return f"{target}: {len(lists) - shorter:,} lists{said}\nread by a run with  teacher=file teacher.path={target}"


def _lists(store: Store, meta: Meta) -> Iterator[ScoredList]:
    """Return a build's lists, given documents first, with texts from the source data."""
    made_of = dict(meta.input_refs())
    texts = dict(store.builds.meta(made_of["student"]).input_refs())
    pool, scores = store.builds.table(made_of["pool"]), store.builds.table(meta.ref("teacher_scores"))
    given = {*pair_ids(pool.filter(pool["given"]))}
    queries = store.builds.table(texts["queries"], ("query_id", "text"))
    asked = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    named, documents = scores["doc_id"].unique(), dict[str, tuple[str, str]]()
    for batch in store.builds.batches(texts["corpus"], ("doc_id", "title", "text")):
        some = batch.filter(pc.is_in(batch["doc_id"], value_set=named))
        said = zip(*(some[name].to_pylist() for name in ("title", "text")), strict=True)
        documents |= dict(zip(some["doc_id"].to_pylist(), said, strict=True))
    scored = zip(*(scores[name].to_pylist() for name in ("query_id", "doc_id", "score")), strict=True)
    for query_id, rows in groupby(scored, lambda row: row[0]):
        ordered = sorted(rows, key=lambda row: ((query_id, row[1]) not in given, -row[2], row[1]))
        found = [Passage(*documents[doc_id], doc_id, score) for _, doc_id, score in ordered]
        yield ScoredList(query_id, asked[query_id], found, sum((query_id, row[1]) in given for row in ordered))
