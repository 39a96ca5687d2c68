"""hold_out: training queries set aside to choose a way of training by, where the data has no dev split."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.errors import DataError
from noisyir.schemas.data import NOISY_PAIRS, QRELS, QUERIES
from noisyir.schemas.training import TRIAL
from noisyir.training.settings import HoldOutFoldParams


def hold_out(job: Job[HoldOutFoldParams]) -> None:
    """Write the pairs of a share of the training queries, equal texts together; every fold has others.

    None where dev queries are judged and `by_dev` is set.
    """
    queries, qrels, pairs = job.table("queries"), job.table("qrels"), job.table("pairs")
    qrels = qrels.filter(pc.greater(qrels["relevance"], 0))
    dev = queries.filter(pc.equal(queries["split"], "dev"))
    if job.params.by_dev and pc.any(pc.is_in(qrels["query_id"], value_set=dev["query_id"])).as_py():
        job.write("trial", TRIAL.schema.empty_table())
        return
    pairs = pairs.filter(pc.equal(pairs["split"], "train"))
    training = queries.filter(pc.is_in(queries["query_id"], value_set=pairs["query_id"]))
    texts = training["text"].unique()
    start, end = (round(fold * job.params.share * len(texts)) for fold in (job.params.fold, job.params.fold + 1))
    count = min(end - start, job.params.most)
    if count < 2 or count == len(texts):
        raise DataError(
            f"auto chooses by held-out queries, and {job.params.share:g} of {len(texts)} training queries are too few: "
            "give the data a dev split, or name one method"
        )
    drawn = texts.take(np.sort(job.rng("queries").permutation(len(texts))[start : start + count]))
    kept = training.filter(pc.is_in(training["text"], value_set=drawn))["query_id"]
    held = pairs.filter(pc.is_in(pairs["query_id"], value_set=kept)).select(["query_id", "doc_id"])
    job.note("held_out_queries", len(kept))
    job.write("trial", pa.table(held))


HOLD_OUT = Stage(
    name="hold_out",
    version=2,
    params=HoldOutFoldParams,
    reads={
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "text", "split"],
        "qrels": QRELS["query_id", "relevance"],
    },
    writes={"trial": TRIAL},
    run=hold_out,
    seeded=True,
)
