"""candidates: the documents that may become hard negatives of the training queries, with their similarities."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR, PAIR_KEY
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import ANSWERS, CORPUS, CUT_PASSAGES, PAIRS, QRELS, QUERIES
from noisyir.data.draws import positions
from noisyir.data.own_documents import own_documents
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import aligned, semi_join
from noisyir.mining import artifacts
from noisyir.mining.settings import CandidatesParams, Positive
from noisyir.retrieval.artifacts import BM25_RUN, DOC_VECTORS, QUERY_VECTORS

if TYPE_CHECKING:
    from noisyir.mining.candidates import Scores
    from noisyir.retrieval.texts import Vectors

Rows = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

VECTORS_AT_ONCE = 16384
PRODUCTS_AT_ONCE = 256  # their vectors fit into the cache


class NamedDocuments(NamedTuple):
    """Documents named by a run or a pair: ids, doc_rows, and a number for each, shared by equal texts.

    Attributes:
        lines: Tokens in which to look for answers; empty if the data has no answers, or documents that contain one are
            kept.
    """

    ids: pa.Array
    rows: Rows
    text: Rows
    lines: list[str]

    def numbers(self, ids: pa.ChunkedArray) -> Rows:
        """Positions of these ids."""
        return positions(ids, self.ids)


def candidates(job: Job[CandidatesParams]) -> None:
    """Keep what training queries rank within the limits and is not known to be relevant, then compute similarities.

    Relevance is known from the pairs and, if the data has answers, from documents that contain one. Judgements of
    training queries are not used: under injected noise they reveal which pair was right, which is unknown outside an
    experiment. Judgements of dev and test queries only exclude.
    """
    found = _found(job)
    documents = _documents(job, found)
    removed = _removed(job, found, documents)
    kept = found.filter(pa.array(~np.logical_or.reduce(list(removed.values()))))
    counts = {name: int(mask.sum()) for name, mask in removed.items()}
    job.note("candidates", {"found": found.num_rows, "removed": counts, "kept": kept.num_rows})
    given = job.has("doc_vectors"), job.has("query_vectors")
    if any(given) and not all(given):
        raise ConfigError("mining.candidates_needs_vectors_documents")
    if any(given) and job.params.queries != "labelled":
        raise ConfigError("mining.candidates_queries_may_no", queries=job.params.queries)
    compared = _compared(job, kept, documents) if all(given) and len(kept) else {}
    for name, kind in list(artifacts.CANDIDATES.columns.items())[kept.num_columns :]:
        kept = kept.append_column(name, compared.get(name, pa.nulls(len(kept), kind)))
    job.write("candidates", kept)


def _found(job: Job[CandidatesParams]) -> pa.Table:
    """Hits of the training queries within the rank limits, in the run's order."""
    run, training = job.table("run"), _training(job)
    ranks = pc.and_(pc.greater_equal(run["rank"], job.params.rank_from), pc.less_equal(run["rank"], job.params.rank_to))
    return run.filter(pc.and_(ranks, pc.is_in(run["query_id"], value_set=training))).combine_chunks()


def _training(job: Job[CandidatesParams]) -> pa.Array:
    """Training queries for which candidates are wanted.

    Raises:
        ConfigError: If the unlabelled ones are wanted, and there are none.
    """
    pairs, queries = job.table("pairs"), job.table("queries")
    labelled = pairs.filter(pc.equal(pairs["split"], "train"))["query_id"].unique()
    if job.params.queries == "labelled":
        return labelled
    training = queries.filter(pc.equal(queries["split"], "train"))["query_id"].combine_chunks()
    if job.params.queries == "all":
        return training
    unlabelled = training.filter(pc.invert(pc.is_in(training, value_set=labelled)))
    if not len(unlabelled):
        raise ConfigError("mining.all_training_queries_pair", n_training=len(training))
    return unlabelled


def _documents(job: Job[CandidatesParams], found: pa.Table) -> NamedDocuments:
    """Documents of the hits and pairs; the title is used as the text of a document without text."""
    from hashlib import sha256

    from noisyir.data.answers import token_line
    from noisyir.retrieval.texts import among

    tables = found, job.table("pairs"), _held_out(job)
    named = pa.chunked_array([chunk for table in tables for chunk in table["doc_id"].chunks], pa.string())
    wanted, reads_answers = named.unique(), job.params.answering == "leave_out" and job.rows("answers") > 0
    ids, rows, text, lines = list[str](), list[int](), list[int](), list[str]()
    number_of: dict[bytes, int] = {}
    for some in among(job.batches("corpus"), wanted):
        texts = [body or title for title, body in zip(some["title"].to_pylist(), some["text"].to_pylist(), strict=True)]
        ids += some["doc_id"].to_pylist()
        rows += some["doc_row"].to_pylist()
        text += [number_of.setdefault(sha256(one.encode()).digest(), len(number_of)) for one in texts]
        lines += map(token_line, some["text"].to_pylist()) if reads_answers else ()
    if len(ids) < len(wanted):
        raise DataError("mining.corpus_lacks_documents_run", n_wanted=len(wanted) - len(ids), n_wanted_2=len(wanted))
    return NamedDocuments(pa.array(ids, pa.string()), np.array(rows, np.int64), np.array(text, np.int64), lines)


def _removed(job: Job[CandidatesParams], found: pa.Table, documents: NamedDocuments) -> dict[str, Mask]:
    """For each rule, the hits that it removes and no earlier rule does.

    Returns:
        positive: A pair assigns the document to the query.
        same_text: A training pair has the same query text and the same document text.
        held_out: It or a copy is relevant to a dev or test query, of the same text or any.
        same_document: If documents were split, it is part of a document that a pair assigns to the query.
        answering: It contains an answer (DPR's rule); not if `answering` is keep.
        own: It is the query itself, or a part of it; named only if it removes any.
    """
    pairs, queries = job.table("pairs"), job.table("queries")
    text_of = queries["text"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)

    def has_text(known: pa.Table, *, of_query: bool) -> Mask:
        width = len(documents.text) if of_query else 0
        keys = (
            text_of[positions(table["query_id"], queries["query_id"])] * width
            + documents.text[documents.numbers(table["doc_id"])]
            for table in (found, known)
        )
        return np.isin(*keys)

    rules = {
        "positive": semi_join(found, pairs),
        "same_text": has_text(pairs.filter(pc.equal(pairs["split"], "train")), of_query=True),
        "held_out": has_text(_held_out(job), of_query=job.params.held_out == "same_query"),
    }
    if job.has("passages"):
        rules["same_document"] = semi_join(*(_of_documents(job, table) for table in (found, pairs)))
    if job.params.answering == "leave_out":
        rules["answering"] = _answering(job, found, documents)
    own, whole = own_documents(queries, job.batches("corpus")), _of_documents(job, found)
    if (itself := semi_join(found, own) | semi_join(whole, own)).any():
        rules["own"] = itself
    before = np.zeros(found.num_rows, bool)
    for name, mask in rules.items():
        rules[name] = mask & ~before
        before |= mask
    return rules


def _of_documents(job: Job[CandidatesParams], rows: pa.Table) -> pa.Table:
    """(query, document) of rows of passages; an id that is no passage maps to itself."""
    if not job.has("passages"):
        return rows
    documents = aligned(rows, job.table("passages"), ["doc_id"])["document"]
    return pa.table({"query_id": rows["query_id"], "doc_id": pc.coalesce(documents, rows["doc_id"])})


def _held_out(job: Job[CandidatesParams]) -> pa.Table:
    """(query, document) judged relevant in dev and test; test queries have judgements but no pairs."""
    queries, qrels = job.table("queries"), job.table("qrels")
    asked = queries.filter(pc.not_equal(queries["split"], "train"))["query_id"].combine_chunks()
    relevant = qrels.filter(pc.and_(pc.greater(qrels["relevance"], 0), pc.is_in(qrels["query_id"], value_set=asked)))
    return relevant.select(PAIR_KEY)


def _answering(job: Job[CandidatesParams], found: pa.Table, documents: NamedDocuments) -> Mask:
    """Whether each hit's text contains an answer to its query; all false if the data has no answers."""
    if not documents.lines:
        return np.zeros(found.num_rows, bool)
    from noisyir.data.answers import answers_by_query

    answers = answers_by_query(job.table("answers"))
    hits = zip(found["query_id"].to_pylist(), documents.numbers(found["doc_id"]).tolist(), strict=True)
    held = (any(answer in documents.lines[number] for answer in answers.get(query_id, ())) for query_id, number in hits)
    return np.fromiter(held, bool, found.num_rows)


def _compared(job: Job[CandidatesParams], kept: pa.Table, documents: NamedDocuments) -> dict[str, pa.Array]:
    """Columns computed from vectors; only the vectors of these queries and documents are held in memory."""
    from noisyir.mining.candidates import dot_rows

    pairs = job.table("pairs")
    pairs = pairs.filter(pc.is_in(pairs["query_id"], value_set=kept["query_id"].unique()))
    pairs = pairs.sort_by(BY_PAIR)
    asked = kept["query_id"].unique()
    named = pa.chunked_array([*kept["doc_id"].chunks, *pairs["doc_id"].chunks], pa.string()).unique()
    rows = pa.array(documents.rows[documents.numbers(named)], pa.int32())
    queries, passages = (
        picked_vectors(job.batches(name, VECTORS_AT_ONCE), name, wanted)
        for name, wanted in (("query_vectors", asked), ("doc_vectors", rows))
    )
    if queries.shape[1] != passages.shape[1]:
        raise DataError("mining.query_vectors_dimensions_doc", shape=queries.shape[1], shape_2=passages.shape[1])
    of_pair, of_query = positions(pairs["doc_id"], named), positions(pairs["query_id"], asked)
    pair_score = dot_rows(queries, of_query, passages, of_pair, PRODUCTS_AT_ONCE)
    chosen = compared_pairs(of_query, pair_score, job.params.positive)
    query, document = positions(kept["query_id"], asked), positions(kept["doc_id"], named)
    positive = of_pair[chosen][query]
    query_norms, norms = (np.linalg.norm(vectors, axis=1) for vectors in (queries, passages))
    return {
        "positive": named.take(pa.array(positive)),
        "score": pa.array(dot_rows(queries, query, passages, document, PRODUCTS_AT_ONCE)),
        "positive_score": pa.array(pair_score[chosen][query]),
        "positive_similarity": pa.array(dot_rows(passages, positive, passages, document, PRODUCTS_AT_ONCE)),
        "query_norm": pa.array(query_norms[query]),
        "positive_norm": pa.array(norms[positive]),
        "norm": pa.array(norms[document]),
    }


def compared_pairs(query: Rows, score: "Scores", positive: Positive) -> Rows:
    """Positions of one pair per query, in the order of the query numbers: the best, or the worst, by score."""
    best_first = np.lexsort((score if positive == "worst" else -score, query))
    return best_first[np.unique(query[best_first], return_index=True)[1]]


def picked_vectors(batches: Iterable[pa.RecordBatch], name: str, wanted: pa.Array) -> "Vectors":
    """Pick the vectors of these ids, (id, dim), from a stream of all.

    Raises:
        DataError: If one is missing.
    """
    from noisyir.retrieval.texts import vectors_at

    vectors, missing = vectors_at(batches, wanted)
    if missing:
        raise DataError("mining.lacks_compared_encode_corpus", name=name, n_wanted=missing, n_wanted_2=len(wanted))
    return vectors


CANDIDATES = Stage(
    name="candidates",
    version=2,
    params=CandidatesParams,
    reads={
        "run": BM25_RUN["query_id", "doc_id", "rank"],
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "text", "split"],
        "qrels": QRELS["query_id", "doc_id", "relevance"],
        "corpus": CORPUS["doc_id", "doc_row", "title", "text"],
        "answers": ANSWERS.all(),
        "passages": CUT_PASSAGES.all().or_none(),
        "doc_vectors": DOC_VECTORS.all().or_none(),
        "query_vectors": QUERY_VECTORS.all().or_none(),
    },
    writes={"candidates": artifacts.CANDIDATES},
    run=candidates,
)
