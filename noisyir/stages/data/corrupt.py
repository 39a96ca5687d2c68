"""corrupt: wrong training pairs at a known rate, and the truth about them, which only scoring may read."""

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.costs.retrieval import per_pair
from noisyir.data.draws import is_among, positions
from noisyir.data.noise import ChosenPairs, Judge, Noise
from noisyir.engine.stage import Job, Stage
from noisyir.errors import ConfigError, DataError
from noisyir.schemas.data import ANSWERS, CLEAN_PAIRS, CORPUS, NOISE_TRUTH, NOISY_PAIRS, PAIRS, QRELS
from noisyir.schemas.retrieval import DOC_VECTORS

if TYPE_CHECKING:
    from noisyir.retrieval.vectors import Vectors

Rows = np.ndarray[Any, np.dtype[np.int64]]
Ids = np.ndarray[Any, np.dtype[np.object_]]

_VECTORS_AT_ONCE = 16384


class DocumentsById(NamedTuple):
    """By id, a number for each document, equal where the texts are, and its doc_row; and the text of each number."""

    numbers: dict[str, int]
    rows: dict[str, int]
    texts: list[str]


def corrupt(job: Job[Noise]) -> None:
    """Give exactly round(rate * n) of the n training pairs a wrong document; other splits stay as they are."""
    pairs = job.table("pairs")
    training = np.flatnonzero(pc.equal(pairs["split"], "train").to_numpy())
    source = pairs["source"].take(training)
    numbered = pc.index_in(source, value_set=source.unique().drop_null()).fill_null(-1).to_numpy()  # -1: no source
    chosen = job.params.choose(numbered, job.rng("pairs"))
    noisy = training[chosen]
    doc_ids = pairs["doc_id"].to_numpy(zero_copy_only=False)
    if len(noisy):
        doc_ids = doc_ids.copy()
        doc_ids[noisy] = _wrong_documents(job, pairs, training, chosen)
    noisy_pairs = pairs.set_column(pairs.schema.get_field_index("doc_id"), "doc_id", pa.array(doc_ids, pa.string()))
    is_noisy = np.isin(training, noisy, assume_unique=True)
    job.write("noisy_pairs", noisy_pairs)
    job.write("clean_pairs", noisy_pairs.take(np.delete(np.arange(len(pairs)), noisy)))
    job.write(
        "noise_truth",
        noisy_pairs.take(training)
        .append_column("kind", pa.array(np.where(is_noisy, job.params.kind, "clean")))
        .append_column("is_noisy", pa.array(is_noisy)),
    )
    job.note("noise", {"mechanism": job.params.kind, "training_pairs": len(training), "noisy": len(noisy)})


def _wrong_documents(job: Job[Noise], pairs: pa.Table, training: Rows, chosen: Rows) -> Ids:
    """Ids of other training pairs' documents, one for each chosen training pair, none of them relevant to its query.

    Relevant is what the pairs and judgements call so, what has the text of such a document, and what holds an answer.
    """
    relevant = _relevant(job, pairs)
    documents = _documents(job, relevant["doc_id"])
    positives: Ids = pairs["doc_id"].take(training).to_numpy(zero_copy_only=False)
    pool, first, own = np.unique([documents.numbers[i] for i in positives], return_index=True, return_inverse=True)
    asked = pairs["query_id"].take(training[chosen])
    queries = pairs["query_id"].unique()
    query = positions(asked, queries)
    known_text = np.array([documents.numbers[i] for i in relevant["doc_id"].to_pylist()])
    known = np.stack([positions(relevant["query_id"], queries), np.searchsorted(pool, known_text)], axis=1)
    known = known[is_among(known_text, pool)]
    texts = [documents.texts[number] for number in pool]
    given = ChosenPairs(
        query=query,
        document=own[chosen],
        known=known,
        is_relevant=_holds_answer(job, asked.to_pylist(), texts),
        texts=texts,
        vectors=lambda: _vectors(job, np.array([documents.rows[i] for i in positives[first]])),
    )
    wrong: Ids = positives[first[job.params.replace(given, job.rng("documents"))]]
    return wrong


def _relevant(job: Job[Noise], pairs: pa.Table) -> pa.Table:
    """(query_id, doc_id) of everything called relevant to the queries that have pairs."""
    qrels = job.table("qrels")
    of_pairs = pc.is_in(qrels["query_id"], value_set=pairs["query_id"].unique())
    judged = qrels.filter(pc.and_(pc.greater(qrels["relevance"], 0), of_pairs))
    columns = ["query_id", "doc_id"]
    return pa.concat_tables([pairs.select(columns), judged.select(columns)]).combine_chunks()


def _documents(job: Job[Noise], doc_ids: pa.ChunkedArray) -> DocumentsById:
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


def _vectors(job: Job[Noise], doc_rows: Rows) -> "Vectors":
    """The vectors of these documents (document, dim), picked from a stream of all."""
    if not job.has("doc_vectors"):
        raise ConfigError(
            f"noise.kind={job.params.kind} needs document vectors: give corrupt the doc_vectors of a model that "
            "encoded this corpus, or choose noise.kind=uniform"
        )
    import faiss

    from noisyir.retrieval.vectors import vectors_of

    faiss.omp_set_num_threads(job.runtime.cpu_threads)
    rows, vectors = [], []
    for batch in job.batches("doc_vectors", _VECTORS_AT_ONCE):
        found = batch.filter(pc.is_in(batch["doc_row"], value_set=pa.array(doc_rows, pa.int32())))
        rows.append(found["doc_row"].to_numpy())
        vectors.append(vectors_of(found))
    found_rows = np.concatenate(rows)
    if len(found_rows) < len(doc_rows):
        raise DataError(
            f"doc_vectors lacks {len(doc_rows) - len(found_rows)} of the {len(doc_rows)} documents of the training "
            "pairs: encode the corpus that the pairs were made with"
        )
    order = np.argsort(found_rows)
    return np.concatenate(vectors)[order[np.searchsorted(found_rows, doc_rows, sorter=order)]]


def _holds_answer(job: Job[Noise], query_ids: list[str], texts: list[str]) -> Judge:
    """Judges by answer match where the data has answers, and calls nothing relevant where it has none."""
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

    return judge


CORRUPT = Stage(
    name="corrupt",
    version=2,
    params=Noise,
    reads={
        "pairs": PAIRS.all(),
        "qrels": QRELS.all(),
        "corpus": CORPUS["doc_id", "doc_row", "title", "text"],
        "answers": ANSWERS.all(),
        "doc_vectors": DOC_VECTORS.all().or_none(),
    },
    writes={"noisy_pairs": NOISY_PAIRS, "clean_pairs": CLEAN_PAIRS, "noise_truth": NOISE_TRUTH},
    run=corrupt,
    seeded=True,
    cost=partial(per_pair, rate=1e-5),
)
