"""pool_candidates, score_by_..., choose_lists: the documents that a teacher reads, its scores, and its lists."""

import logging
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR, PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, PAIRS, QRELS, QUERIES
from noisyir.engine.remote.shards import Block
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import aligned, semi_join, with_values
from noisyir.mining.artifacts import CANDIDATE_POOL
from noisyir.mining.teachers import (
    CrossEncoderTeacher,
    ListParams,
    PoolParams,
    RankerTeacher,
    Teacher,
    average,
    chosen,
    weakness,
)
from noisyir.models.artifacts import RANKER
from noisyir.models.weights import classifier_digest, classifier_labels, locate_classifier
from noisyir.retrieval.artifacts import BM25_RUN, DOC_VECTORS, LEXICAL_INDEX, QUERY_VECTORS
from noisyir.retrieval.measures import judged, per_query, ranked
from noisyir.training.artifacts import TEACHER_SCORES, TRIAL
from noisyir.training.launch import in_processes
from noisyir.training.stages.inputs import distinct_ids, pairs_are_there, start_ranker, training_context, without_trial

if TYPE_CHECKING:
    from noisyir.mining.candidates import Rows, Scores
    from noisyir.models.ranker import Ranker
    from noisyir.training.lists import Lists, TrainingTexts

log = logging.getLogger(__name__)
_WEIGHTS = "teacher.weights"


def pool_candidates(job: Job[PoolParams]) -> None:
    """Pool every run's top hits, for training queries with a pair and for dev queries, with the given documents."""
    pairs, queries = without_trial(job, job.table("pairs")), job.table("queries")
    given = pairs.filter(pc.equal(pairs["split"], "train")).select(PAIR_KEY)
    dev = queries.filter(pc.equal(queries["split"], "dev"))["query_id"]
    asked = distinct_ids(given["query_id"], dev)
    hits = pa.concat_tables(job.tables("run").values())
    hits = hits.filter(pc.and_(pc.less_equal(hits["rank"], job.params.depth), pc.is_in(hits["query_id"], asked)))
    both = pa.concat_tables([given, hits.select(PAIR_KEY)])
    pool = both.group_by(PAIR_KEY, use_threads=False).aggregate([]).sort_by(BY_PAIR)
    split = aligned(pool, queries, ["query_id"])["split"]
    job.write("candidate_pool", with_values(pool, split=split, given=pa.array(semi_join(pool, given))))
    job.note("pool", {"queries": len(asked), "documents": len(pool), "given": len(given)})


def score_by_retrieval(job: Job[Teacher]) -> None:
    """Score the pool by BM25, by vectors, or by both."""
    pool = job.table("pool")
    query = numbered(pool["query_id"])
    lexical = _lexical(job, pool, query) if "lexical" in job.params.reads else None
    dense = _dense(job, pool) if "vectors" in job.params.reads else None
    write_scores(job, pool, job.params.combined(lexical, dense, query))


def numbered(ids: pa.ChunkedArray) -> "Rows":
    """Number ids in the order of first occurrence."""
    return np.asarray(ids.combine_chunks().dictionary_encode().indices, np.int64)


def write_scores(job: Job[Any], pool: pa.Table, score: "Scores", fold: "Rows | None" = None) -> None:
    """Write the teacher's scores of the pool.

    Raises:
        DataError: If a score is not finite.
    """
    if bad := int((~np.isfinite(score)).sum()):
        raise DataError("mining.teacher_gives_documents_no", kind=job.params.kind, bad=bad, n_pool=len(pool))
    folds = pa.array(np.full(len(pool), -1) if fold is None else fold, pa.int32())
    scores, teacher = pa.array(score, pa.float32()), pa.repeat(job.params.kind, len(pool))
    job.write("teacher_scores", with_values(pool.select(PAIR_KEY), score=scores, teacher=teacher, fold=folds))


def _lexical(job: Job[Any], pool: pa.Table, query: "Rows") -> "Scores":
    """BM25 score of each row; 0 if no query term is in the document."""
    from noisyir.retrieval.numpy_bm25 import NumpyBm25

    searcher = NumpyBm25(job.folder("lexical_index") / "bm25s", k1=job.params.k1, b=job.params.b)
    texts = aligned(pool, job.table("queries"), ["query_id"])["text"]
    document = pc.index_in(pool["doc_id"], value_set=searcher.doc_ids).to_numpy()
    score = np.zeros(len(pool), np.float32)
    starts = np.append(np.unique(query, return_index=True)[1], len(pool))
    for number, start in enumerate(starts[:-1]):
        rows = slice(start, starts[number + 1])
        found = searcher.scores(texts[start].as_py())
        score[rows] = 0.0 if found is None else found[document[rows]]
        job.progress(number + 1, len(starts) - 1, "queries")
    return score


def _dense(job: Job[Teacher], pool: pa.Table) -> "Scores":
    """Inner products of each row's query and document vectors."""
    from noisyir.mining.candidates import dot_rows
    from noisyir.mining.stages.candidates import VECTORS_AT_ONCE, picked_vectors

    asked, named = pool["query_id"].unique(), pool["doc_id"].unique()
    rows = aligned(pa.table({"doc_id": named}), job.table("corpus"), ["doc_id"])["doc_row"].combine_chunks()
    encoded = (batch for table in job.tables("query_vectors").values() for batch in table.to_batches())
    queries = picked_vectors(encoded, "query_vectors", asked)
    documents = picked_vectors(job.batches("doc_vectors", VECTORS_AT_ONCE), "doc_vectors", rows)
    places = (
        pc.index_in(pool[name], value_set=ids).to_numpy() for name, ids in zip(PAIR_KEY, (asked, named), strict=True)
    )
    query, document = places
    return dot_rows(queries, query, documents, document, 256)


def score_by_cross_encoder(job: Job[CrossEncoderTeacher]) -> None:
    """Score the pool by a classifier's logits."""
    from noisyir.mining.stages.relevance_judges import pair_logits

    pool = job.table("pool")
    write_scores(job, pool, pair_logits(job, pool, cross_encoder_shards))


def cross_encoder_shards(job: Job[CrossEncoderTeacher], blocks: Sequence[Block]) -> Iterator[pa.Table]:
    """Logits of some blocks of the pool."""
    from noisyir.mining.stages.relevance_judges import block_logits

    folder = locate_classifier(job.params.weights, _WEIGHTS)
    return block_logits(job, folder, job.params.max_len, job.table("pool"), blocks)


def check_labels(params: CrossEncoderTeacher) -> None:
    """Check the classifier's labels; warn if it has two."""
    if classifier_labels(params.weights, _WEIGHTS) == 2:
        log.warning("%s=%s tells two labels apart: its score is logit of label 1 minus logit of label 0", _WEIGHTS,
                    params.weights)  # fmt: skip


@in_processes
def score_by_ranker(job: Job[RankerTeacher]) -> None:
    """Train a ranker without each fold of the queries, and score the fold's documents with it.

    Dev queries are in the folds, too, but never in training.
    """
    from noisyir.training.lists import folds_of, read_texts
    from noisyir.training.ranker import trained_apart

    pool, params, context = job.table("pool"), job.params, training_context(job)
    documents = read_texts(job.batches("corpus"), pool["doc_id"].unique())
    asked = pa.table({"query_id": pool["query_id"].unique()})
    texts = aligned(asked, job.table("queries"), ["query_id"])["text"].to_pylist()
    fold = folds_of(texts, params.folds, job.rng("folds"))[numbered(pool["query_id"])]
    start, score = start_ranker(job), np.zeros(len(pool), np.float32)
    for number in range(params.folds):
        rows, made = np.flatnonzero(fold == number), job.work / f"fold{number}.npy"
        if not made.exists():  # otherwise left by a killed build
            lists = _lists_of(job, pool.filter(pa.array(fold != number)), documents)
            ranker = trained_apart(start, lists, number, params, context)
            found = _read_pairs(job, ranker, pool.take(rows), documents)
            half = made.with_suffix(f".{os.getpid()}.npy")
            np.save(half, found, allow_pickle=False)
            half.replace(made)
        score[rows] = np.load(made, allow_pickle=False)
    job.note("cross_fitted", {"folds": params.folds, "pairs_read": len(pool)})
    write_scores(job, pool, score, fold)


def _lists_of(job: Job[RankerTeacher], pool: pa.Table, documents: "TrainingTexts") -> "Lists":
    """Lists of the training queries in a part of the pool: a given document, and others of the pool."""
    from noisyir.training.lists import ranking_lists

    training = pool.filter(pc.equal(pool["split"], "train"))
    negatives = training.filter(pc.invert(training["given"]))
    return ranking_lists(training.filter(training["given"]), job.table("queries"), documents, negatives)


def _read_pairs(job: Job[RankerTeacher], ranker: "Ranker", rows: pa.Table, documents: "TrainingTexts") -> "Scores":
    """The ranker's logits of these rows; equal texts are read once, so their scores are equal."""
    from noisyir.models.cross_encoder import CrossEncoder, TextPairs

    asked = aligned(rows, job.table("queries"), ["query_id"])["text"].combine_chunks().dictionary_encode()
    size = len(documents.texts)
    keys, place = np.unique(
        np.asarray(asked.indices, np.int64) * size + documents.passages(rows["doc_id"]), return_inverse=True
    )
    query, document = np.divmod(keys, size)
    texts = TextPairs(*(of.take(pa.array(some)).to_pylist()
                        for of, some in ((asked.dictionary, query), (documents.texts, document))))  # fmt: skip
    judge = CrossEncoder(ranker.model, ranker.tokenizer, ranker.max_len)
    found: Scores = judge.logits(texts, job.runtime.batch_tokens)[place]
    return found


def choose_lists(job: Job[ListParams]) -> None:
    """Choose each training query's list by the scores of one teacher, or by the average of several.

    Lists of one document and lists of equal scores are left out, because neither has an order to teach.
    """
    pool, tables = job.table("pool"), [table.sort_by(BY_PAIR) for table in job.tables("scores").values()]
    if any(table.select(PAIR_KEY) != pool.select(PAIR_KEY) for table in tables):
        raise DataError("mining.teacher_scored_other_documents")
    query = numbered(pool["query_id"])
    columns = [table["score"].to_numpy() for table in tables]
    score = columns[0] if len(columns) == 1 else average(columns, query).astype(np.float32)
    _measure(job, pool, score)
    given, training = np.asarray(pool["given"]), np.asarray(pc.equal(pool["split"], "train"))
    starts = np.append(np.unique(query, return_index=True)[1], len(query))
    kept, left_out, rng = [np.empty(0, np.int64)], {"one_document": 0, "equal_scores": 0}, job.rng("lists")
    for first, end in pairwise(starts):
        if not training[first]:
            continue
        rows = first + chosen(score[first:end], given[first:end], job.params, rng)
        if len(rows) < 2 or np.ptp(score[rows]) == 0:
            left_out["one_document" if len(rows) < 2 else "equal_scores"] += 1
        else:
            kept.append(rows)
    told = {"lists": len(kept) - 1, "left_out": left_out}
    job.note("lists", told)
    _refuse_empty(told)
    teacher = pa.repeat("+".join(table["teacher"][0].as_py() for table in tables), len(pool))
    folds = pa.array(np.max([table["fold"].to_numpy() for table in tables], axis=0), pa.int32())
    scored = with_values(pool.select(PAIR_KEY), score=pa.array(score, pa.float32()), teacher=teacher, fold=folds)
    job.write("teacher_scores", scored.take(np.concatenate(kept)))


def _refuse_empty(told: dict[str, Any]) -> None:
    """Warn if lists are left out.

    Raises:
        DataError: If no list is left.
    """
    said = ", ".join(f"{count:,} of {why.replace('_', ' ')}" for why, count in told["left_out"].items() if count)
    if not told["lists"]:
        raise DataError("mining.no_list_order_teach", said=said or "there are none")
    if said:
        log.warning("lists without an order to teach are left out: %s; %s are left", said, f"{told['lists']:,}")


def _measure(job: Job[ListParams], pool: pa.Table, score: "Scores") -> None:
    """Note MRR@10 of teacher and student on the dev queries' pool, and warn if the teacher is not better."""
    judgements = judged(
        job.table("qrels"), pool.filter(pc.equal(pool["split"], "dev"))["query_id"].unique().to_pylist()
    )
    if not judgements:
        return
    student = job.table("student").sort_by(BY_PAIR)["score"].to_numpy()
    values = {}
    for name, scores in (("teacher", score), ("student", student)):
        run = pool.select(PAIR_KEY).append_column("score", pa.array(scores))
        run = run.sort_by([("query_id", "ascending"), ("score", "descending"), ("doc_id", "ascending")])
        run = run.append_column("rank", pa.array(np.arange(len(run)), pa.int32()))
        values[name] = float(pc.mean(per_query(ranked(run, judgements), judgements, ["RR@10"])["value"]).as_py())
    job.note("dev", {"queries": len(judgements), **values})
    if said := weakness(**values):
        log.warning(said)


POOL_CANDIDATES = Stage(
    name="pool_candidates",
    version=1,
    params=PoolParams,
    reads={
        "run": BM25_RUN["query_id", "doc_id", "rank"].each(),
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "trial": TRIAL.all().or_none(),
        "queries": QUERIES["query_id", "split"],
    },
    writes={"candidate_pool": CANDIDATE_POOL},
    run=pool_candidates,
    fits=pairs_are_there,
)
SCORE_BY_RETRIEVAL = Stage(
    name="score_by_retrieval",
    version=1,
    params=Teacher,
    reads={
        "pool": CANDIDATE_POOL.all(),
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "doc_row"],
        "lexical_index": LEXICAL_INDEX.all().or_none(),
        "doc_vectors": DOC_VECTORS.all().or_none(),
        "query_vectors": QUERY_VECTORS.all().each().or_none(),
    },
    writes={"teacher_scores": TEACHER_SCORES},
    run=score_by_retrieval,
)
SCORE_BY_CROSS_ENCODER = Stage(
    name="score_by_cross_encoder",
    version=1,
    params=CrossEncoderTeacher,
    reads={
        "pool": CANDIDATE_POOL.all(),
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "title", "text"],
    },
    writes={"teacher_scores": TEACHER_SCORES},
    run=score_by_cross_encoder,
    raw={"weights": lambda params: classifier_digest(params.weights, _WEIGHTS)},
    pool="gpu",
    spreads=True,
    ready=check_labels,
)
SCORE_BY_RANKER = Stage(
    name="score_by_ranker",
    version=1,
    params=RankerTeacher,
    reads={
        "pool": CANDIDATE_POOL.all(),
        "ranker": RANKER.all(),
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "title", "text"],
    },
    writes={"teacher_scores": TEACHER_SCORES},
    run=score_by_ranker,
    seeded=True,
    pool="gpu",
)
CHOOSE_LISTS = Stage(
    name="choose_lists",
    version=1,
    params=ListParams,
    reads={
        "pool": CANDIDATE_POOL.all(),
        "scores": TEACHER_SCORES.all().each(),
        "student": TEACHER_SCORES.all(),
        "qrels": QRELS["query_id", "doc_id", "relevance"],
    },
    writes={"teacher_scores": TEACHER_SCORES},
    run=choose_lists,
    seeded=True,
)
