"""sieve: which candidates a model, trained briefly with the robust loss, finds too near to their queries.

The passage sieve (Wang et al., AAAI 2024, Algorithm 1). The paper and its code train and judge by cosine, and so does
this stage, whatever the model's own similarity: its towers are used, and their vectors normalised.
"""

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR
from noisyir.base.errors import DataError
from noisyir.engine.stage import Job, Stage, told
from noisyir.engine.tables import with_values
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.mining.judges import SieveJudge, sieve_out_rate, stays
from noisyir.training.artifacts import CURVES
from noisyir.training.launch import in_processes
from noisyir.training.stages.inputs import TRAINING_READS, join_examples, start_model, training_context, write_curves
from noisyir.training.stages.train_dpr import full_retriever

if TYPE_CHECKING:
    from noisyir.mining.sieve_pools import SievePools
    from noisyir.training.examples import TokenisedDocuments

Rows = np.ndarray[Any, np.dtype[np.int64]]

log = logging.getLogger(__name__)
_IDLE = 1e-7  # the printed rate, at which no verdict changes
_REASONS = {True: "no nearer to the query than its pool's mean", False: "nearer to the query than its pool's mean"}


@in_processes
def sieve(job: Job[SieveJudge]) -> None:
    """Train on each query's unfiltered candidates, then judge them; the trained model is discarded.

    Raises:
        DataError: If candidates belong to queries without a training pair.
    """
    from noisyir.mining.sieve_pools import DprWithSieveCurve, cosines
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.training import examples
    from noisyir.training.bi_encoder import train

    found, pairs = _by_ids(job)
    if not len(found):
        nothing = np.empty(0, np.float32)
        _write(job, found, nothing, nothing, nothing.astype(bool))
        write_curves(job, [])
        return
    if job.params.learning_rate <= _IDLE:
        log.warning("at judges.sieve.learning_rate=%g the sieve is the mining model itself: raise it to "
                    "train.learning_rate", job.params.learning_rate)  # fmt: skip
    model = start_model(job)
    encoder = BiEncoder(model.query_tower, model.passage_tower, replace(model.shape, similarity="cosine")).eval()
    pairs, queries = examples.training_queries(pairs, job.table("queries"))
    known, held, documents = join_examples(job, encoder, pairs, queries, found.select(["query_id", "doc_id"]))
    judged, pools = _pools(job, found, pairs, queries, documents)

    def judge() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cosine, bound = cosines(encoder, known, pools)
        return cosine, bound, stays(cosine, bound)

    objective = DprWithSieveCurve(lambda: sieve_out_rate(judge()[2]))
    curves = train(encoder, known, held, job.params, objective, training_context(job))
    cosine, bound, keep = judge()
    _, step, epoch, _ = max(curves, key=lambda point: point[1])
    job.metric("sieve_out_rate", sieve_out_rate(keep), step)
    write_curves(job, [*curves, ("sieve_out_rate", step, epoch, sieve_out_rate(keep))])
    _write(job, judged, cosine, bound, keep)


def _by_ids(job: Job[SieveJudge]) -> tuple[pa.Table, pa.Table]:
    """Candidates, and the training pairs of their queries, in the order of their ids."""
    found = job.table("candidates").sort_by(BY_PAIR)
    asked, pairs = found["query_id"].unique(), job.table("pairs")
    pairs = pairs.filter(pc.and_(pc.equal(pairs["split"], "train"), pc.is_in(pairs["query_id"], value_set=asked)))
    if without := asked.filter(pc.invert(pc.is_in(asked, value_set=pairs["query_id"]))).to_pylist():
        raise DataError(
            "mining.queries_candidates_no_training", n_without=len(without), n_asked=len(asked), without=without[0]
        )
    return found, pairs.sort_by(BY_PAIR)


def _pools(
    job: Job[SieveJudge], found: pa.Table, pairs: pa.Table, queries: pa.Table, documents: "TokenisedDocuments"
) -> "tuple[pa.Table, SievePools]":
    """Candidates to judge, by query and rank, and the pools in which they are judged."""
    from noisyir.mining.sieve_pools import SievePools
    from noisyir.training.examples import Numbering

    asked, size = found["query_id"].unique(), job.params.pool_size
    query, paired = (
        pc.index_in(table["query_id"], value_set=asked).to_numpy().astype(np.int64) for table in (found, pairs)
    )
    rows = np.arange(len(found)) if size is None else _some(query, size, job.rng("pool"))
    rows = rows[np.lexsort((found["rank"].to_numpy()[rows], query[rows]))]
    judged, positive = found.take(rows), _some(paired, 1, job.rng("positive"))
    text = Numbering(queries["query_id"].combine_chunks(), "queries").rows(asked)
    passages = documents.passages(judged["doc_id"]), documents.passages(pairs["doc_id"].take(positive))
    return judged, SievePools(query[rows], passages[0], text, passages[1])


def _some(query: Rows, count: int, rng: np.random.Generator) -> Rows:
    """Up to `count` rows of each query, by query, drawn at random among rows in the order of the ids."""
    from noisyir.mining.draw import draw

    return draw([np.zeros(len(query))], query, np.arange(len(query)), count, rng).rows


def _write(job: Job[SieveJudge], judged: pa.Table, cosine: np.ndarray, bound: np.ndarray, keep: np.ndarray) -> None:
    """Write the verdicts, and note the number of each kind."""
    columns = {"score": pa.array(cosine, pa.float32()), "bound": pa.array(bound, pa.float32()), "keep": pa.array(keep)}
    columns["reason"] = pc.if_else(columns["keep"], _REASONS[True], _REASONS[False])
    job.write("verdicts", with_values(judged.select(["query_id", "doc_id"]), **columns))
    queries, left = (pc.count_distinct(table["query_id"]).as_py() for table in (judged, judged.filter(pa.array(keep))))
    job.note(
        "sieve",
        {
            "judged": len(keep),
            "sieved_out": int((~keep).sum()),
            "rate": sieve_out_rate(keep),
            "queries": queries,
            "queries_with_none_left": queries - left,
        },
    )


SIEVE = Stage(
    name="sieve",
    version=1,
    params=SieveJudge,
    reads={
        **{name: read for name, read in TRAINING_READS.items() if name not in ("flags", "negatives")},
        "candidates": CANDIDATES["query_id", "doc_id", "rank"],
    },
    writes={"verdicts": VERDICTS, "curves": CURVES},
    run=sieve,
    seeded=True,
    pool="gpu",
    story=partial(
        told, "sieve", "Sieve: {sieved_out:,} of {judged:,} candidate negatives were sieved out as likely positives."
    ),
    learners=full_retriever,
)
