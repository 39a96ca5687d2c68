"""given_weights: what a file of pairs says each pair counts in training."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.formats.pairs import Pairs
from noisyir.engine.stage import Job, Stage, told
from noisyir.schemas.data import NOISY_PAIRS
from noisyir.schemas.noise import GIVEN_WEIGHTS


def given_weights(job: Job[Pairs]) -> None:
    """Write each training pair's weight; one to which the file gives none counts whole."""
    pairs = job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    given = {(query_id, doc_id): weight for query_id, doc_id, weight in job.params.open(job.runtime.threads).weights()}
    ids = zip(training["query_id"].to_pylist(), training["doc_id"].to_pylist(), strict=True)
    weights = np.array([given.get(pair, 1.0) for pair in ids], np.float32)
    table = training.select(["query_id", "doc_id"]).append_column("weight", pa.array(weights))
    job.write("given_weights", table)
    below_half = int((weights < 0.5).sum())
    job.note("weights", {"pairs": len(weights), "mean": float(weights.mean()), "below_half": below_half})


GIVEN = Stage(
    name="given_weights",
    version=2,
    params=Pairs,
    reads={"pairs": NOISY_PAIRS["query_id", "doc_id", "split"]},
    writes={"given_weights": GIVEN_WEIGHTS},
    run=given_weights,
    raw={"source": Pairs.digest},
    story=partial(
        told,
        "weights",
        "Weights: by the file {pairs:,} pairs count {mean:.2f} in the mean, {below_half:,} of them below one half.",
    ),
)
