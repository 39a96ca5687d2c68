"""chunk: documents as passages, with pairs, judgements and negatives of passages, in tables named as ingest's."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from noisyir.data.artifacts import ANSWERS, CORPUS, CUT_PASSAGES, GIVEN_NEGATIVES, PAIRS, QRELS, QUERIES
from noisyir.data.passages import PassageWords, best_passage, cut
from noisyir.data.settings import ChunkParams
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import pair_ids, table_of, with_values

_ROWS = 4096
_TEXTS = ("doc_id", "title", "text")
_Cut = tuple[list[str], list[str]]  # ids and texts of the passages of a longer document


def chunk(job: Job[ChunkParams]) -> None:
    """Cut every document, and give each pair and negative the passage that fits its query.

    A judgement holds for each passage of its document.  So does an unjudged training pair: mining and corruption then
    pass by the other passages of its document.
    """
    tables = {name: job.table(name) for name in ("pairs", "given_negatives", "qrels")}
    queries_of = defaultdict(list)
    for query_id, doc_id in pair_ids(
        pa.concat_tables([table.select(["query_id", "doc_id"]) for table in tables.values()])
    ):
        queries_of[doc_id].append(query_id)
    texts, answers = _by_id(job.table("queries")), _by_id(job.table("answers"))
    best: dict[tuple[str, str], str] = {}
    passages: dict[str, list[str]] = {}
    with job.writer("corpus") as corpus, job.writer("cut_passages") as written:
        for number, (table, found) in enumerate(_in_passages(job), 1):
            for doc_id in queries_of.keys() & found.keys():
                names, parts = found[doc_id]
                passages[doc_id], seen = names, [*map(PassageWords, parts)]
                for query_id in queries_of[doc_id]:
                    best[query_id, doc_id] = names[best_passage(texts[query_id], seen, answers.get(query_id, ()))]
            corpus.append(table)
            written.append(table)
            job.progress(min(number * _ROWS, job.rows("corpus")), job.rows("corpus"), "documents")
    job.note("passages", {"documents": job.rows("corpus"), "passages": corpus.rows})
    for name in ("pairs", "given_negatives"):
        names = [best.get(pair, pair[1]) for pair in pair_ids(tables[name])]
        job.write(name, with_values(tables[name], doc_id=pa.array(names, pa.string())))
    job.write("qrels", _of_all(tables["qrels"], tables["pairs"], passages))


def _by_id(table: pa.Table) -> dict[str, Any]:
    """A table's second column by its first."""
    return dict(zip(*(column.to_pylist() for column in table.columns[:2]), strict=True))


def _in_passages(job: Job[ChunkParams]) -> Iterator[tuple[pa.Table, dict[str, _Cut]]]:
    """Batch by batch, passages as CORPUS with the `document` of each, and the documents that were cut."""
    words, overlap = job.params.words, job.params.overlap
    assert words is not None, "the plan has this stage only where documents are cut"
    marked = {name for batch in job.batches("corpus") for name in batch["doc_id"].to_pylist() if "#" in name}
    first = 0
    for batch in job.batches("corpus", _ROWS):
        rows: list[tuple[str, str, str, str]] = []
        found: dict[str, _Cut] = {}
        for doc_id, title, text in zip(*(batch[name].to_pylist() for name in _TEXTS), strict=True):
            parts, names = cut(text, words, overlap), [doc_id]
            if len(parts) > 1:
                names = _names(doc_id, len(parts), marked)
                found[doc_id] = names, parts
            rows += [(name, title, part, doc_id) for name, part in zip(names, parts, strict=True)]
        columns = zip((*_TEXTS, "document"), zip(*rows, strict=True), strict=True)
        table = pa.table({name: pa.array(column, pa.string()) for name, column in columns})
        numbers = pa.array(np.arange(first, first := first + table.num_rows), pa.int32())
        yield table.append_column("doc_row", numbers), found


def _names(doc_id: str, count: int, marked: set[str]) -> list[str]:
    """Ids of passages as in Anserini: d7#0, d7#1, with more # if a document has such an id."""
    sign = "#"
    while any(f"{doc_id}{sign}{number}" in marked for number in range(count)):
        sign += "#"
    return [f"{doc_id}{sign}{number}" for number in range(count)]


def _of_all(qrels: pa.Table, pairs: pa.Table, passages: Mapping[str, Sequence[str]]) -> pa.Table:
    """The judgements of all passages, and of unjudged pairs of a document that was cut."""
    judged = dict(zip(pair_ids(qrels), qrels["relevance"].to_pylist(), strict=True))
    judged = {pair: 1 for pair in pair_ids(pairs) if pair[1] in passages} | judged
    rows = [
        (query_id, name, relevance)
        for (query_id, doc_id), relevance in judged.items()
        for name in passages.get(doc_id, (doc_id,))
    ]
    return table_of(rows, QRELS.schema)


CHUNK = Stage(
    name="chunk",
    version=1,
    params=ChunkParams,
    reads={
        "corpus": CORPUS["doc_id", "title", "text"],
        "queries": QUERIES["query_id", "text"],
        "answers": ANSWERS.all(),
        "pairs": PAIRS.all(),
        "given_negatives": GIVEN_NEGATIVES.all(),
        "qrels": QRELS.all(),
    },
    writes={
        "corpus": CORPUS,
        "pairs": PAIRS,
        "given_negatives": GIVEN_NEGATIVES,
        "qrels": QRELS,
        "cut_passages": CUT_PASSAGES,
    },
    run=chunk,
)
