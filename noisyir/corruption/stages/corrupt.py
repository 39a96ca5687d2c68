"""corrupt: wrong training pairs at a known rate, and the truth about them, which only scoring may read.

Kinds that change the collection also write it, under the name of ingest's, which it replaces.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, DataError
from noisyir.corruption.kinds import Corruption, Judge, PairsToCorrupt, Spoilt
from noisyir.corruption.versions import Versions, changed, named
from noisyir.data.artifacts import ANSWERS, CLEAN_PAIRS, CORPUS, NOISE_TRUTH, NOISY_PAIRS, PAIRS, QRELS, QUERIES
from noisyir.data.draws import is_among, positions
from noisyir.data.id_texts import text_key
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import with_values
from noisyir.retrieval.artifacts import DOC_VECTORS

if TYPE_CHECKING:
    from noisyir.retrieval.texts import Vectors


Rows = np.ndarray[Any, np.dtype[np.int64]]
Ids = np.ndarray[Any, np.dtype[np.object_]]

_VECTORS_AT_ONCE = 16384
_NO_IDS: Ids = np.empty(0, object)


class DocumentsById(NamedTuple):
    """Text number and doc_row by id, and the text of each number; equal texts share a number."""

    numbers: dict[str, int]
    rows: dict[str, int]
    texts: list[str]


class PositiveTable(NamedTuple):
    """The training pairs' documents: each pair's id, and its number in a pool of distinct texts.

    pool, ids: Text number in `documents` and first document id of each text in the pool.
    """

    documents: DocumentsById
    of_pair: Ids
    number: Rows
    pool: Rows
    ids: Ids


class CorpusChanges(NamedTuple):
    """The corrupted training pairs of `rows`, the texts that leave the collection, and new documents."""

    rows: Rows
    doc_ids: Ids
    kinds: Ids
    leaving: set[str]
    added: Versions


def corrupt(job: Job[Corruption]) -> None:
    """Give exactly round(rate * n) of the n training pairs a wrong document; other splits stay unchanged."""
    pairs = job.table("pairs")
    training = np.flatnonzero(pc.equal(pairs["split"], "train").to_numpy())
    made = _changes(job, pairs, training) if round(job.params.rate * len(training)) else _NOTHING
    noisy = training[made.rows]
    noisy_pairs = _with_documents(pairs, noisy, made.doc_ids)
    kinds = np.full(len(training), "clean", object)
    kinds[made.rows] = made.kinds
    is_noisy = np.isin(training, noisy, assume_unique=True)
    job.write("noisy_pairs", noisy_pairs)
    job.write("clean_pairs", noisy_pairs.take(np.delete(np.arange(len(pairs)), noisy)))
    job.write(
        "noise_truth",
        with_values(noisy_pairs.take(training), kind=pa.array(kinds, pa.string()), is_noisy=pa.array(is_noisy)),
    )
    job.note("noise", {"mechanism": job.params.kind, "training_pairs": len(training), "noisy": len(noisy)})
    if _changes_corpus(job.params):
        with job.writer("corpus") as out:
            for table in changed(job.batches("corpus"), made.leaving, made.added):
                out.append(table)


_NOTHING = CorpusChanges(np.empty(0, np.int64), _NO_IDS, _NO_IDS, set(), Versions((), (), ()))


def _changes_corpus(params: Corruption) -> bool:
    return params.changes_corpus and params.rate > 0


def _with_documents(pairs: pa.Table, rows: Rows, doc_ids: Ids) -> pa.Table:
    column = pairs["doc_id"].to_numpy(zero_copy_only=False).copy()
    column[rows] = doc_ids
    return with_values(pairs, doc_id=pa.array(column, pa.string()))


def _changes(job: Job[Corruption], pairs: pa.Table, training: Rows) -> CorpusChanges:
    relevant = _relevant(job, pairs)
    judged = job.table("qrels").filter(pc.greater(pc.field("relevance"), 0))
    wanted = relevant["doc_id"]
    if job.params.changes_corpus:  # then other queries' needs matter
        wanted = pa.chunked_array([*wanted.chunks, *judged["doc_id"].chunks], pa.string())
    positives = _positives(_documents(job, wanted), pairs["doc_id"].take(training))
    spoilt = job.params.spoil(_training_pairs(job, pairs, training, relevant, positives))
    kinds = np.full(len(spoilt.rows), job.params.kind, object)
    own = positives.of_pair[spoilt.rows]
    if len(spoilt.texts):
        added = named(own.tolist(), spoilt.texts, job.params.kind, _ids_with(job, f"~{job.params.kind}"))
        id_of = dict(zip(added.texts, added.doc_ids, strict=True))
        return CorpusChanges(spoilt.rows, np.array([id_of[text] for text in spoilt.texts], object), kinds, set(), added)
    doc_ids = positives.ids[spoilt.documents]
    if spoilt.leaving is None:
        return CorpusChanges(spoilt.rows, doc_ids, kinds, set(), _NOTHING.added)
    others = pc.invert(pc.is_in(judged["query_id"], value_set=pairs["query_id"].take(training).unique()))
    needing = [_with_documents(pairs, training[spoilt.rows], doc_ids)["doc_id"], judged.filter(others)["doc_id"]]
    leaving = _unneeded(positives, spoilt, {doc_id for column in needing for doc_id in column.to_pylist()})
    stayed = ~np.isin(positives.pool[positives.number[spoilt.rows]], list(leaving))
    kinds[stayed] += "_kept"
    texts = {positives.documents.texts[number] for number in leaving}
    return CorpusChanges(spoilt.rows, doc_ids, kinds, texts, _NOTHING.added)


def _unneeded(positives: PositiveTable, spoilt: Spoilt, needed: set[str]) -> set[int]:
    """Return the text numbers that leave: taken away by the corruption and needed by no document."""
    assert spoilt.leaving is not None
    numbers = positives.documents.numbers
    stay = {numbers[doc_id] for doc_id in needed if doc_id in numbers}
    return set(positives.pool[spoilt.leaving].tolist()) - stay


def _positives(documents: DocumentsById, doc_ids: pa.ChunkedArray) -> PositiveTable:
    of_pair: Ids = doc_ids.to_numpy(zero_copy_only=False)
    numbers = [documents.numbers[doc_id] for doc_id in of_pair]
    pool, first, own = np.unique(numbers, return_index=True, return_inverse=True)
    return PositiveTable(documents, of_pair, own, pool, of_pair[first])


def _training_pairs(
    job: Job[Corruption], pairs: pa.Table, training: Rows, relevant: pa.Table, positives: PositiveTable
) -> PairsToCorrupt:
    """Build a corruption's inputs.

    Relevant are documents of pairs and judgements, documents with the text of one, and documents that hold an answer.
    """
    documents, pool = positives.documents, positives.pool
    asked, queries = pairs["query_id"].take(training), pairs["query_id"].unique()
    known_text = np.array([documents.numbers[i] for i in relevant["doc_id"].to_pylist()])
    known = np.stack([positions(relevant["query_id"], queries), np.searchsorted(pool, known_text)], axis=1)
    texts = [documents.texts[number] for number in pool]
    source = pairs["source"].take(training)
    is_relevant, holds_answer = _answering(job, asked.to_pylist(), texts)
    return PairsToCorrupt(
        query=positions(asked, queries),
        document=positives.number,
        known=known[is_among(known_text, pool)],
        is_relevant=is_relevant,
        texts=texts,
        vectors=lambda: _vectors(job, np.array([documents.rows[i] for i in positives.ids])),
        source=pc.index_in(source, value_set=source.unique().drop_null()).fill_null(-1).to_numpy(),
        questions=lambda: _questions(job, asked),
        holds_answer=holds_answer,
        is_there=_is_there(job),
        rng=job.rng,
        work=job.work,
    )


def _relevant(job: Job[Corruption], pairs: pa.Table) -> pa.Table:
    """Return (query_id, doc_id) of everything called relevant to the queries with pairs."""
    qrels = job.table("qrels")
    of_pairs = pc.is_in(qrels["query_id"], value_set=pairs["query_id"].unique())
    judged = qrels.filter(pc.and_(pc.greater(qrels["relevance"], 0), of_pairs))
    columns = ["query_id", "doc_id"]
    return pa.concat_tables([pairs.select(columns), judged.select(columns)]).combine_chunks()


def _documents(job: Job[Corruption], doc_ids: pa.ChunkedArray) -> DocumentsById:
    """Read these documents; a document without text has its title as text."""
    wanted = doc_ids.unique()
    number_of_text: dict[str, int] = {}
    documents = DocumentsById({}, {}, [])
    for batch in job.batches("corpus"):
        found = batch.filter(pc.is_in(batch["doc_id"], value_set=wanted))
        for doc_id, row, title, text in zip(*(column.to_pylist() for column in found.columns), strict=True):
            documents.numbers[doc_id] = number_of_text.setdefault(text or title, len(number_of_text))
            documents.rows[doc_id] = row
    return documents._replace(texts=list(number_of_text))


def _vectors(job: Job[Corruption], doc_rows: Rows) -> "Vectors":
    """Pick these documents' vectors (document, dim) from the stream."""
    if not job.has("doc_vectors"):
        raise ConfigError("corruption.no_vectors", noise=job.params.kind)
    import faiss

    from noisyir.retrieval.texts import vectors_at

    faiss.omp_set_num_threads(job.runtime.cpu_threads)
    vectors, missing = vectors_at(job.batches("doc_vectors", _VECTORS_AT_ONCE), pa.array(doc_rows, pa.int32()))
    if missing:
        raise DataError("corruption.missing_vectors", missing=missing, documents=len(doc_rows))
    return vectors


def _answering(
    job: Job[Corruption], query_ids: list[str], texts: list[str]
) -> tuple[Judge, Callable[[int, str], bool]]:
    """Return judges of pool documents, and of other texts, by answer match; without answers nothing is relevant."""
    from noisyir.data.answers import answers_by_query, token_line

    lines = answers_by_query(job.table("answers"))

    @cache
    def line_of(document: int) -> str:
        return token_line(texts[document])

    def judge(rows: Rows, documents: Rows) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        if not lines:
            return np.zeros(len(rows), bool)
        pairs = zip(rows.tolist(), documents.tolist(), strict=True)
        held = (any(line in line_of(document) for line in lines.get(query_ids[row], ())) for row, document in pairs)
        return np.fromiter(held, bool, len(rows))

    def holds_answer(row: int, text: str) -> bool:
        return any(line in token_line(text) for line in lines.get(query_ids[row], ()))

    return judge, holds_answer


def _questions(job: Job[Corruption], query_ids: pa.ChunkedArray) -> list[str]:
    if not job.has("queries"):
        raise ConfigError("corruption.no_query_texts", noise=job.params.kind)
    queries = job.table("queries")
    found: list[str] = queries["text"].take(pa.array(positions(query_ids, queries["query_id"]))).to_pylist()
    return found


def _is_there(job: Job[Corruption]) -> Callable[[str], bool]:
    """Return a test whether the collection has a text; the collection is read at the first call."""

    @cache
    def keys() -> "np.ndarray[Any, np.dtype[np.uint64]]":
        texts = (batch["text"].to_pylist() for batch in job.batches("corpus"))
        return np.sort(np.concatenate([np.fromiter(map(text_key, some), np.uint64, len(some)) for some in texts]))

    return lambda text: bool(is_among(np.array([text_key(text)], np.uint64), keys())[0])


def _ids_with(job: Job[Corruption], part: str) -> set[str]:
    ids = (batch["doc_id"] for batch in job.batches("corpus"))
    return {found for some in ids for found in some.filter(pc.match_substring(some, part)).to_pylist()}


CORRUPT = Stage(
    name="corrupt",
    version=2,
    params=Corruption,
    reads={
        "pairs": PAIRS.all(),
        "qrels": QRELS.all(),
        "corpus": CORPUS["doc_id", "doc_row", "title", "text"],
        "answers": ANSWERS.all(),
        "doc_vectors": DOC_VECTORS.all().or_none(),
        "queries": QUERIES["query_id", "text"].or_none(),
    },
    writes={"noisy_pairs": NOISY_PAIRS, "clean_pairs": CLEAN_PAIRS, "noise_truth": NOISE_TRUTH},
    optional_writes={"corpus": CORPUS},
    when=_changes_corpus,
    run=corrupt,
    seeded=True,
)
