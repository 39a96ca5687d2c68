"""score_pairs: how suspect each training pair is, by one detector."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.errors import ConfigError
from noisyir.models.weights import classifier_digest, locate_classifier
from noisyir.noise.settings import ScorePairsParams
from noisyir.schemas.data import CORPUS, NOISY_PAIRS, QUERIES
from noisyir.schemas.noise import COMPETITORS, PAIR_SCORES
from noisyir.schemas.retrieval import LEXICAL_INDEX
from noisyir.schemas.training import MODEL, NEGATIVES
from noisyir.training.launch import in_processes
from noisyir.training.settings import TrainDprParams

if TYPE_CHECKING:
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.noise.competitors import Competitors
    from noisyir.noise.cross_fit import Scorer
    from noisyir.noise.synthetic import SyntheticNegatives
    from noisyir.retrieval.numpy_bm25 import NumpyBm25
    from noisyir.training.batches import TrainingPairs
    from noisyir.training.examples import Documents

_SETTING = "detectors.NAME.weights"
_KEPT = 5  # competitors written a pair


@partial(in_processes, when=lambda params: params.folds > 1)
def score_pairs(job: Job[ScorePairsParams]) -> None:
    """Score every training pair; beside it, with detectors that search, what would be paired instead."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.noise.synthetic import synthetic
    from noisyir.training import examples

    torch.set_num_threads(job.runtime.cpu_threads)
    encoder = load_bi_encoder(job.folder("model"), job.runtime.device)
    queries = job.table("queries")
    pairs, train_queries = examples.training_queries(job.table("pairs"), queries)
    negatives = _negatives(job, train_queries)
    documents = examples.read_documents(encoder, job.batches("corpus"), _needed(job, pairs, negatives))
    numbered = examples.training_pairs(encoder, pairs, train_queries, documents, negatives)
    ids = pairs.select(["query_id", "doc_id"])
    wrong = synthetic(encoder, numbered, job.params.neighbours, job.rng("made_up"))
    if job.params.detector == "cross_encoder":
        competitors, scores = None, _read_together(job, numbered, wrong, documents, train_queries["text"].to_pylist())
    elif job.params.searches:
        competitors = _competitors(job, encoder, numbered, wrong, documents, train_queries["text"].to_pylist())
        scores = _searched_scores(job.params.detector, competitors)
    else:
        competitors, scores = None, _in_batch(job, encoder, numbered, wrong)
    best = pa.nulls(len(ids), pa.string()) if competitors is None else _named(documents, competitors.rows[:, 0])
    epoch = job.params.epochs if job.params.folds else 0
    job.write(
        "pair_scores",
        ids.append_column("epoch", pa.array(np.full(len(ids), epoch, np.int32)))
        .append_column("score", pa.array(scores[0], pa.float32()))
        .append_column("null_score", pa.array(scores[1], pa.float32()))
        .append_column("near_score", pa.array(scores[2], pa.float32()))
        .append_column("best_other", best),
    )
    job.write(
        "competitors",
        COMPETITORS.schema.empty_table() if competitors is None else _competitors_table(ids, documents, competitors),
    )


def _needed(job: Job[ScorePairsParams], pairs: pa.Table, negatives: pa.Table) -> pa.Array | None:
    """The documents to read: those named, or, for a detector that searches, all."""
    if not job.params.searches:
        named = [chunk for ids in (pairs["doc_id"], negatives["doc_id"]) for chunk in ids.chunks]
        return pa.chunked_array(named, pa.string()).unique()
    return None


def _negatives(job: Job[ScorePairsParams], train_queries: pa.Table) -> pa.Table:
    if job.params.hard_negatives == 0:
        return NEGATIVES.schema.empty_table().select(["query_id", "doc_id"])
    if not job.has("negatives"):
        raise ConfigError(f"hard_negatives={job.params.hard_negatives} needs mined ones: set mine.per_query")
    negatives = job.table("negatives")
    return negatives.filter(pc.is_in(negatives["query_id"], value_set=train_queries["query_id"]))


def _scorers(job: Job[ScorePairsParams], encoder: "BiEncoder", pairs: "TrainingPairs") -> "Iterator[Scorer]":
    """The given model for all pairs, or a model for each fold."""
    from noisyir.noise.cross_fit import Scorer, cross_fitted
    from noisyir.training.run import Surroundings

    params = job.params
    if params.folds == 0:
        return iter([Scorer(encoder, np.arange(len(pairs)))])
    if params.folds == 1:
        raise ConfigError("score_pairs.folds=1 leaves no pairs to train on: set 0, or 2 and more")
    training = TrainDprParams(
        epochs=params.epochs, batch_size=params.batch_size, learning_rate=params.learning_rate, scale=params.scale
    )
    around = Surroundings(job.rng, job.work, job.runtime.checkpoint_seconds, job.progress, lambda *_: None, job.note)
    return cross_fitted(encoder, pairs, params.folds, training, around)


def _in_batch(
    job: Job[ScorePairsParams], encoder: "BiEncoder", pairs: "TrainingPairs", wrong: "SyntheticNegatives"
) -> Sequence[np.ndarray]:
    from noisyir.losses.dpr import pair_nll
    from noisyir.noise.pair_nll import InBatch, log_rank, score_in_batch

    params = job.params
    statistic = pair_nll if params.detector == "pair_nll" else log_rank
    how = InBatch(params.batch_size, params.shuffles, params.scale, statistic, params.hard_negatives)
    found = np.zeros((3, len(pairs)), np.float32)
    for number, scorer in enumerate(_scorers(job, encoder, pairs)):
        of_pair, rng = wrong.of(scorer.chosen), job.rng("shuffles", number)
        stand_ins = (of_pair.random, of_pair.near)
        found[:, scorer.chosen] = score_in_batch(scorer.encoder, pairs, scorer.chosen, how, rng, stand_ins)
    return tuple(found)


def _read_together(
    job: Job[ScorePairsParams],
    pairs: "TrainingPairs",
    wrong: "SyntheticNegatives",
    documents: "Documents",
    queries: list[str],
) -> Sequence[np.ndarray]:
    """(score, null score, near score) by a cross-encoder."""
    from noisyir.models.cross_encoder import Texts, load_cross_encoder
    from noisyir.models.tokens import passage_text
    from noisyir.noise.cross_encoder import score_together

    params, runtime = job.params, job.runtime
    if params.folds:
        raise ConfigError(
            f"score_pairs.folds={params.folds} trains bi-encoders; with detector=cross_encoder set it to 0"
        )
    judge = load_cross_encoder(locate_classifier(params.weights, _SETTING), params.max_len, runtime.device)
    read: list[str] = []
    for batch in job.batches("corpus"):  # the rows of `documents`, which are in the corpus's order
        some = batch.filter(pc.is_in(batch["doc_id"], value_set=documents.numbering.ids))
        read += map(passage_text, some["title"].to_pylist(), some["text"].to_pylist())
    tried = (pairs.passage, wrong.random, wrong.near)

    def progress(done: int, total: int) -> None:
        job.progress(done, total, "texts")

    return score_together(judge, pairs, Texts(queries, read), tried, runtime.batch_tokens, progress)


def _competitors(
    job: Job[ScorePairsParams],
    encoder: "BiEncoder",
    pairs: "TrainingPairs",
    wrong: "SyntheticNegatives",
    documents: "Documents",
    texts: list[str],
) -> "Competitors":
    from noisyir.noise import competitors as competitors

    if job.params.detector == "bm25_margin":
        searcher = _bm25(job)
        row_of = documents.passages(searcher.doc_ids)
        chosen = np.arange(len(pairs))
        return competitors.lexical_competitors(searcher, texts, row_of, pairs, chosen, keep=_KEPT, wrong=wrong)
    parts = [
        (
            scorer.chosen,
            competitors.dense_competitors(
                scorer.encoder, pairs, documents.same, scorer.chosen,
                keep=_KEPT, depth=job.params.depth, wrong=wrong.of(scorer.chosen),
            ),
        )
        for scorer in _scorers(job, encoder, pairs)
    ]  # fmt: skip
    return competitors.merged(parts)


def _bm25(job: Job[ScorePairsParams]) -> "NumpyBm25":
    from noisyir.retrieval.numpy_bm25 import NumpyBm25

    if not job.has("lexical_index"):
        raise ConfigError("score_pairs.detector=bm25_margin needs a lexical index of engine bm25s")
    return NumpyBm25(job.folder("lexical_index") / "bm25s", k1=job.params.k1, b=job.params.b)


def _searched_scores(detector: str, competitors: "Competitors") -> Sequence[np.ndarray]:
    """(score, null score, near score) of detectors that search."""
    if detector == "similarity":
        return -competitors.own, -competitors.random, -competitors.near
    if detector == "rank":  # synthetic documents are taken to lie deeper than the search goes
        beyond = np.full(len(competitors.rank), np.log(competitors.depth + 1))
        return competitors.log_rank(), beyond, beyond
    return competitors.margins()


def _named(documents: "Documents", rows: np.ndarray) -> pa.Array:
    """The ids at these rows; null where a row is -1."""
    return documents.numbering.ids.take(pa.array(rows, pa.int64(), mask=rows < 0))


def _competitors_table(ids: pa.Table, documents: "Documents", competitors: "Competitors") -> pa.Table:
    found = competitors.rows >= 0
    offsets = pa.array(np.concatenate([[0], np.cumsum(found.sum(axis=1))]), pa.int32())
    names = _named(documents, competitors.rows[found])
    return (
        ids.append_column("similarity", pa.array(competitors.own))
        .append_column("rank", pa.array(competitors.rank, pa.int32(), mask=competitors.rank == 0))
        .append_column("competitors", pa.ListArray.from_arrays(offsets, names))
        .append_column(
            "competitor_similarities", pa.ListArray.from_arrays(offsets, pa.array(competitors.similarities[found]))
        )
    )


def _weights_digest(params: ScorePairsParams) -> str | None:
    judge = params.detector == "cross_encoder"
    return classifier_digest(params.weights, _SETTING) if judge else None


SCORE_PAIRS = Stage(
    name="score_pairs",
    version=2,
    params=ScorePairsParams,
    reads={
        "model": MODEL.all(),
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "text", "split"],
        "corpus": CORPUS["doc_id", "title", "text"],
        "negatives": NEGATIVES["query_id", "doc_id"].or_none(),
        "lexical_index": LEXICAL_INDEX.all().or_none(),
    },
    writes={"pair_scores": PAIR_SCORES, "competitors": COMPETITORS},
    run=score_pairs,
    seeded=True,
    raw={"weights": _weights_digest},
    pool="gpu",
)
