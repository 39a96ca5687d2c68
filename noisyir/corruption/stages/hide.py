"""hide: relevant documents that no pair names, at a known rate, and the truth, which only scoring may read.

Its tables have ingest's names, so that later stages read either.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR
from noisyir.corruption.hiding import Hiding, Labelled
from noisyir.data.artifacts import CORPUS, HIDDEN, PAIRS, QRELS
from noisyir.engine.stage import Job, Stage


def hide(job: Job[Hiding]) -> None:
    """Remove pairs, or add edited copies of their documents; only training pairs change."""
    pairs = job.table("pairs")
    numbered = pairs.append_column("row", pa.array(np.arange(len(pairs))))
    training = numbered.filter(pc.equal(pairs["split"], "train")).sort_by(BY_PAIR)
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
        "qrels": QRELS.all().or_none(),  # test pairs are only here
    },
    writes={"corpus": CORPUS, "pairs": PAIRS, "hidden": HIDDEN},
    run=hide,
    seeded=True,
)
