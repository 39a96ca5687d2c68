"""corrupt: wrong training pairs at a known rate, and the truth about them, which only scoring may read.

Kinds of noise that change the collection make it write that, too; it has the name of ingest's, and takes its place.

hide: relevant documents that no pair names, at a known rate, and the truth about them, which only scoring may read.

The names of its tables are those of ingest: what comes after reads either.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, DataError
from noisyir.corruption.hiding import BY_IDS, Hiding, Labelled
from noisyir.corruption.kinds import Corruption, Judge, PairsToCorrupt, Spoilt
from noisyir.data.artifacts import ANSWERS, CLEAN_PAIRS, CORPUS, HIDDEN, NOISE_TRUTH, NOISY_PAIRS, PAIRS, QRELS, QUERIES
from noisyir.data.draws import is_among, positions
from noisyir.data.id_texts import text_key
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.artifacts import DOC_VECTORS

if TYPE_CHECKING:
    from noisyir.retrieval.texts import Vectors


@dataclass(frozen=True)
class Versions:
    """New documents, each made of another: ids of both, no two alike, and the new text."""

    originals: Sequence[str]
    doc_ids: Sequence[str]
    texts: Sequence[str]


def named(originals: Sequence[str], texts: Sequence[str], kind: str, in_use: Collection[str]) -> Versions:
    """Versions with ids that follow from the originals': `d7~half_answer1`, the number being the next that is free.

    Equal texts are one version, which has its id from the first of their originals.
    """
    first: dict[str, str] = {}
    for original, text in zip(originals, texts, strict=True):
        first.setdefault(text, original)
    used, number, doc_ids = set(in_use), dict.fromkeys(first.values(), 0), []
    for original in first.values():
        while (doc_id := f"{original}~{kind}{number[original] + 1}") in used:
            number[original] += 1
        used.add(doc_id)
        doc_ids.append(doc_id)
    return Versions(list(first.values()), doc_ids, list(first))


def changed(documents: Iterable[pa.RecordBatch], leaving: Collection[str], added: Versions) -> Iterator[pa.Table]:
    """The documents of CORPUS without those of these texts, and the new ones behind them; rows numbered anew.

    The title is the text of one without text.  A new document has its original's title, unless the original has nothing
    but that.
    """
    gone, wanted = pa.array(sorted(leaving), pa.string()), pa.array(sorted(set(added.originals)), pa.string())
    titles: dict[str, str] = {}
    rows = 0
    for batch in documents:
        originals = batch.filter(pc.is_in(batch["doc_id"], value_set=wanted))
        for doc_id, title, text in zip(*(originals[name].to_pylist() for name in _TEXTS), strict=True):
            titles[doc_id] = title if text else ""
        words = pc.if_else(pc.equal(batch["text"], ""), batch["title"], batch["text"])
        kept = pa.Table.from_batches([batch.filter(pc.invert(pc.is_in(words, value_set=gone)))])
        yield _numbered(kept, rows)
        rows += len(kept)
    if added.doc_ids:
        columns = {
            "doc_id": pa.array(added.doc_ids, pa.string()),
            "title": pa.array([titles[original] for original in added.originals], pa.string()),
            "text": pa.array(added.texts, pa.string()),
        }
        yield _numbered(pa.table(columns), rows)


_TEXTS = ("doc_id", "title", "text")


def _numbered(documents: pa.Table, first: int) -> pa.Table:
    rows = pa.array(first + np.arange(len(documents)), pa.int32())
    return pa.table({**{name: documents[name] for name in _TEXTS}, "doc_row": rows}).select(list(CORPUS.columns))


Rows = np.ndarray[Any, np.dtype[np.int64]]
Ids = np.ndarray[Any, np.dtype[np.object_]]

_VECTORS_AT_ONCE = 16384


class DocumentsById(NamedTuple):
    """By id, a number for each document, equal where the texts are, and its doc_row; and the text of each number."""

    numbers: dict[str, int]
    rows: dict[str, int]
    texts: list[str]


class PositiveTable(NamedTuple):
    """The training pairs' documents: each pair's id, and its number in a pool of distinct texts.

    pool: the number in `documents` of each text; ids: of the first document that has it.
    """

    documents: DocumentsById
    of_pair: Ids
    number: Rows
    pool: Rows
    ids: Ids


class CorpusChanges(NamedTuple):
    """The corrupted training pairs of `rows`, and the collection: texts that leave it, and new documents."""

    rows: Rows
    doc_ids: Ids
    kinds: Ids
    leaving: set[str]
    added: Versions


def corrupt(job: Job[Corruption]) -> None:
    """Give exactly round(rate * n) of the n training pairs a wrong document; other splits stay as they are."""
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
        noisy_pairs.take(training)
        .append_column("kind", pa.array(kinds, pa.string()))
        .append_column("is_noisy", pa.array(is_noisy)),
    )
    job.note("noise", {"mechanism": job.params.kind, "training_pairs": len(training), "noisy": len(noisy)})
    if _changes_corpus(job.params):
        with job.writer("corpus") as out:
            for table in changed(job.batches("corpus"), made.leaving, made.added):
                out.append(table)


_NO_IDS: Ids = np.empty(0, object)
_NOTHING = CorpusChanges(np.empty(0, np.int64), _NO_IDS, _NO_IDS, set(), Versions((), (), ()))


def _changes_corpus(params: Corruption) -> bool:
    return params.changes_corpus and params.rate > 0


def _with_documents(pairs: pa.Table, rows: Rows, doc_ids: Ids) -> pa.Table:
    column = pairs["doc_id"].to_numpy(zero_copy_only=False).copy()
    column[rows] = doc_ids
    return pairs.set_column(pairs.schema.get_field_index("doc_id"), "doc_id", pa.array(column, pa.string()))


def _changes(job: Job[Corruption], pairs: pa.Table, training: Rows) -> CorpusChanges:
    """The pairs that the kind of noise makes wrong, with their documents, and what that does to the collection."""
    relevant = _relevant(job, pairs)
    judged = job.table("qrels").filter(pc.greater(pc.field("relevance"), 0))
    wanted = relevant["doc_id"]
    if job.params.changes_corpus:  # then it matters what other queries need
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
    """Numbers of the texts that leave: those that the corruption takes away and no document in need has."""
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
    """The inputs of a corruption.

    Relevant is what the pairs and judgements call so, what has the text of such a document, and what holds an answer.
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
    """(query_id, doc_id) of everything called relevant to the queries that have pairs."""
    qrels = job.table("qrels")
    of_pairs = pc.is_in(qrels["query_id"], value_set=pairs["query_id"].unique())
    judged = qrels.filter(pc.and_(pc.greater(qrels["relevance"], 0), of_pairs))
    columns = ["query_id", "doc_id"]
    return pa.concat_tables([pairs.select(columns), judged.select(columns)]).combine_chunks()


def _documents(job: Job[Corruption], doc_ids: pa.ChunkedArray) -> DocumentsById:
    """These documents; the title is the text of one without text."""
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
    """The vectors of these documents (document, dim), picked from a stream of all."""
    if not job.has("doc_vectors"):
        raise ConfigError("corruption.noise_kind_needs_document", kind=job.params.kind)
    import faiss

    from noisyir.retrieval.texts import vectors_of

    faiss.omp_set_num_threads(job.runtime.cpu_threads)
    rows, vectors = [], []
    for batch in job.batches("doc_vectors", _VECTORS_AT_ONCE):
        found = batch.filter(pc.is_in(batch["doc_row"], value_set=pa.array(doc_rows, pa.int32())))
        rows.append(found["doc_row"].to_numpy())
        vectors.append(vectors_of(found))
    found_rows = np.concatenate(rows)
    if len(found_rows) < len(doc_rows):
        raise DataError(
            "corruption.doc_vectors_lacks_documents",
            n_doc_rows=len(doc_rows) - len(found_rows),
            n_doc_rows_2=len(doc_rows),
        )
    order = np.argsort(found_rows)
    return np.concatenate(vectors)[order[np.searchsorted(found_rows, doc_rows, sorter=order)]]


def _answering(
    job: Job[Corruption], query_ids: list[str], texts: list[str]
) -> tuple[Judge, Callable[[int, str], bool]]:
    """Judge documents of the pool, and other texts, by answer match; nothing is relevant where there are no answers."""
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
    """The texts of these queries."""
    if not job.has("queries"):
        raise ConfigError("corruption.noise_kind_needs_queries", kind=job.params.kind)
    queries = job.table("queries")
    found: list[str] = queries["text"].take(pa.array(positions(query_ids, queries["query_id"]))).to_pylist()
    return found


def _is_there(job: Job[Corruption]) -> Callable[[str], bool]:
    """Whether the collection has a text; it is read when first asked."""

    @cache
    def keys() -> "np.ndarray[Any, np.dtype[np.uint64]]":
        texts = (batch["text"].to_pylist() for batch in job.batches("corpus"))
        return np.sort(np.concatenate([np.fromiter(map(text_key, some), np.uint64, len(some)) for some in texts]))

    return lambda text: bool(is_among(np.array([text_key(text)], np.uint64), keys())[0])


def _ids_with(job: Job[Corruption], part: str) -> set[str]:
    """The ids of documents that hold these characters."""
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


def hide(job: Job[Hiding]) -> None:
    """Take pairs away, or add edited copies of their documents; only training pairs are touched."""
    pairs = job.table("pairs")
    numbered = pairs.append_column("row", pa.array(np.arange(len(pairs))))
    training = numbered.filter(pc.equal(pairs["split"], "train")).sort_by(BY_IDS)
    given = Labelled(
        pairs=pairs,
        training=training,
        qrels=job.table("qrels") if job.has("qrels") else None,
        documents=job.rows("corpus"),
        read=lambda: job.batches("corpus"),
        rng=job.rng,
    )
    found = job.params.hide(given)
    job.note("hidden", {"mechanism": job.params.kind, **found.counts})
    job.write("pairs", pairs.take(np.delete(np.arange(len(pairs)), found.pairs)))
    kinds = pa.array([job.params.kind] * len(found.truth), pa.string())
    job.write("hidden", found.truth.append_column("kind", kinds))
    with job.writer("corpus") as out:
        for batch in job.batches("corpus"):
            out.append(pa.Table.from_batches([batch]))
        if len(found.documents):
            out.append(found.documents)


HIDE = Stage(
    name="hide",
    version=1,
    params=Hiding,
    reads={
        "corpus": CORPUS.all(),
        "pairs": PAIRS.all(),
        "qrels": QRELS.all().or_none(),  # for test pairs, which are judgements alone
    },
    writes={"corpus": CORPUS, "pairs": PAIRS, "hidden": HIDDEN},
    run=hide,
    seeded=True,
)
