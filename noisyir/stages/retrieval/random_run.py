"""random_run: documents of the whole corpus for each training query, in an order of pure chance."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.runs import Hits, run_table
from noisyir.retrieval.settings import RandomRunParams
from noisyir.schemas import retrieval
from noisyir.schemas.data import CORPUS, QUERIES

_ROWS_AT_ONCE = 1_000_000


def random_run(job: Job[RandomRunParams]) -> None:
    """Draw uniformly without replacement; the rank is the place in the draw, the score always 0."""
    documents = _in_order(job.table("corpus")["doc_id"])
    queries = job.table("queries")
    asked = _in_order(queries.filter(pc.equal(queries["split"], "train"))["query_id"])
    depth, rng = min(job.params.top_k, len(documents)), job.rng("documents")
    with job.writer("random_run") as out:
        step = max(1, _ROWS_AT_ONCE // depth)
        for start in range(0, len(asked), step):
            some = asked.slice(start, step)
            drawn = [rng.choice(len(documents), depth, replace=False) for _ in range(len(some))]
            scores = np.zeros(len(some) * depth, np.float32)
            hits = Hits(np.full(len(some), depth), documents.take(np.concatenate(drawn)), scores)
            out.append(run_table(some, hits))
            job.progress(start + len(some), len(asked), "queries")


def _in_order(ids: pa.ChunkedArray) -> pa.Array:
    """The ids sorted, so that the draw depends on what there is and not on how it comes."""
    return ids.take(pc.sort_indices(ids)).combine_chunks()


RANDOM_RUN = Stage(
    name="random_run",
    version=1,
    params=RandomRunParams,
    reads={"queries": QUERIES["query_id", "split"], "corpus": CORPUS["doc_id"]},
    writes={"random_run": retrieval.RANDOM_RUN},
    run=random_run,
    seeded=True,
)
