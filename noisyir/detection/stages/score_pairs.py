"""score_pairs: how suspect each training pair is, by one detector."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from operator import methodcaller
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import FLOATS
from noisyir.data.artifacts import CORPUS, NOISY_PAIRS, QUERIES
from noisyir.data.own_documents import own_documents
from noisyir.detection.artifacts import COMPETITORS, PAIR_FEATURES, PAIR_SCORES
from noisyir.detection.combine import Scores
from noisyir.detection.detectors import Detector, DetectorOutput, PairsToScore
from noisyir.detection.settings import NULLS, Null
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import listed, with_values
from noisyir.models.artifacts import MODEL
from noisyir.retrieval.artifacts import LEXICAL_INDEX
from noisyir.training.artifacts import NEGATIVES
from noisyir.training.launch import in_processes
from noisyir.training.stages.inputs import distinct_ids, mined_negatives, training_context

if TYPE_CHECKING:
    from noisyir.detection.collection import EncodedCollection
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.synthetic import References
    from noisyir.training.batches import NumberedPairs, TrainingPairs
    from noisyir.training.examples import TrainingDocuments


@partial(in_processes, when=lambda detector: detector.trainings > 1)
def score_pairs(job: Job[Detector]) -> None:
    """Score every training pair and, for detectors that search, write its competitors."""
    ids, given = _pairs_to_score(job)
    found = job.params.score(given)
    scored = DetectorOutput(found) if isinstance(found, Scores) else found
    job.write("pair_scores", _scores_table(ids, job.params.epochs_trained, scored, given.documents))
    others = scored.competitors
    none = COMPETITORS.schema.empty_table()
    job.write("competitors", none if others is None else _competitors_table(ids, given.documents, others))
    job.write("pair_features", _features_table(job, ids, scored.features))
    if scored.reading:
        job.note("reading", scored.reading)


def _pairs_to_score(job: Job[Detector]) -> tuple[pa.Table, PairsToScore]:
    """The training pairs' ids, and everything a detector may use."""
    import torch

    from noisyir.detection.collection import EncodedCollection
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.training import examples

    torch.set_num_threads(job.runtime.cpu_threads)
    pairs, train_queries = examples.training_queries(job.table("pairs"), job.table("queries"))
    negatives = mined_negatives(job, train_queries, job.params.negatives_needed, "hard_negatives")
    # A detector that searches reads all documents; others read only named ones.
    needed = None if job.params.searches else distinct_ids(pairs["doc_id"], negatives["doc_id"])
    documents = examples.number_documents(job.batches("corpus"), needed)
    own = own_documents(train_queries, job.batches("corpus"))
    numbered = examples.numbered_pairs(pairs, train_queries, documents, negatives, own)

    encoder = cache(lambda: load_bi_encoder(job.folder("model"), job.runtime.device))

    @cache
    def tokenised() -> "TrainingPairs":
        read = examples.read_documents(encoder(), job.batches("corpus"), needed)
        return examples.training_pairs(encoder(), pairs, train_queries, read, negatives, own)

    collection = cache(lambda: EncodedCollection(encoder(), tokenised(), documents.same, numbered.query))
    given = PairsToScore(
        encoder=encoder,
        tokenised=tokenised,
        collection=collection,
        pairs=numbered,
        wrong=_made_up(job, numbered, collection),
        documents=documents,
        query_texts=train_queries["text"].to_pylist(),
        read_documents=partial(_texts, job, documents),
        rng=job.rng,
        training=replace(training_context(job), metric=lambda *_: None),
        runtime=job.runtime,
        progress=job.progress,
        lexical_index=job.folder("lexical_index") if job.has("lexical_index") else None,
        read_sources=partial(_sources, job, documents, pairs, numbered),
    )
    return pairs.select(["query_id", "doc_id"]), given


def _made_up(job: Job[Detector], pairs: "NumberedPairs", collection: "Callable[[], EncodedCollection]") -> "References":
    """Documents drawn at random for each pair and, if the detector searches, neighbours of the best other one."""
    from noisyir.detection.synthetic import References, near_documents, random_documents

    nulls: dict[Null, np.ndarray] = {"random": random_documents(pairs, job.params.draws, partial(job.rng, "made_up"))}
    if job.params.searches and not job.params.draws_nulls:
        nulls["near"] = near_documents(collection(), pairs, job.params.neighbours)
    return References(nulls)


def _texts(job: Job[Detector], documents: "TrainingDocuments") -> list[str]:
    """Titles and texts of the documents, in corpus order."""
    from noisyir.training.examples import document_texts

    read = document_texts(job.batches("corpus"), documents.numbering.ids)
    return [text for _, texts in read for text in texts]


def _sources(
    job: Job[Detector], documents: "TrainingDocuments", pairs: pa.Table, numbered: "NumberedPairs"
) -> np.ndarray:
    """Number of each document's title, if others share it, else of a pair's source, else -1."""
    of_pair = pairs["source"].combine_chunks().dictionary_encode()
    found = np.full(len(documents.numbering), -1)
    source = np.asarray(of_pair.indices.fill_null(-1), np.int64)
    named, first = np.unique(numbered.passage[source >= 0], return_index=True)
    found[named] = source[source >= 0][first]
    titles = pa.concat_arrays([batch["title"] for batch in job.batches("corpus")])  # all documents in corpus order
    title = np.asarray(titles.dictionary_encode().indices, np.int64)
    shared = (np.bincount(title)[title] > 1) & np.asarray(pc.not_equal(titles, ""))
    return np.where(shared, len(of_pair.dictionary) + title, found)


def _features_table(job: Job[Detector], ids: pa.Table, features: np.ndarray | None) -> pa.Table:
    """Features of each pair, with their names noted; no rows without features."""
    if features is None:
        return PAIR_FEATURES.schema.empty_table()
    from noisyir.detection.features import FEATURES

    job.note("features", list(FEATURES))
    return ids.append_column("features", listed(features))


def _scores_table(ids: pa.Table, epoch: int, scored: DetectorOutput, documents: "TrainingDocuments") -> pa.Table:
    scores, others = scored.scores, scored.competitors
    best = pa.nulls(len(ids), pa.string()) if others is None else _named(documents, others.rows[:, 0])
    epochs, observed = pa.array(np.full(len(ids), epoch, np.int32)), pa.array(scores.observed, pa.float32())
    none = pa.nulls(len(ids), FLOATS)
    draws = {f"{null}_scores": listed(scores.nulls[null]) if null in scores.nulls else none for null in NULLS}
    return with_values(ids, epoch=epochs, score=observed, **draws, best_other=best)


def _named(documents: "TrainingDocuments", rows: np.ndarray) -> pa.Array:
    """Ids at these rows; null for a row of -1."""
    return documents.numbering.ids.take(pa.array(rows, pa.int64(), mask=rows < 0))


def _competitors_table(ids: pa.Table, documents: "TrainingDocuments", competitors: "Competitors") -> pa.Table:
    found = competitors.rows >= 0
    offsets = pa.array(np.concatenate([[0], np.cumsum(found.sum(axis=1))]), pa.int32())
    return with_values(
        ids,
        similarity=pa.array(competitors.own),
        rank=pa.array(competitors.rank, pa.int32(), mask=competitors.rank == 0),
        competitors=pa.ListArray.from_arrays(offsets, _named(documents, competitors.rows[found])),
        competitor_similarities=pa.ListArray.from_arrays(offsets, pa.array(competitors.similarities[found])),
    )


SCORE_PAIRS = Stage(
    name="score_pairs",
    version=4,
    params=Detector,
    reads={
        "model": MODEL.all(),
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split", "source"],
        "queries": QUERIES["query_id", "text", "split"],
        "corpus": CORPUS["doc_id", "title", "text"],
        "negatives": NEGATIVES["query_id", "doc_id"].or_none(),
        "lexical_index": LEXICAL_INDEX.all().or_none(),
    },
    writes={"pair_scores": PAIR_SCORES, "competitors": COMPETITORS, "pair_features": PAIR_FEATURES},
    run=score_pairs,
    seeded=True,
    raw={"weights": methodcaller("weights_digest")},
    pool="gpu",
    ready=methodcaller("check_ready"),
)
