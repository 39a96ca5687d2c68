"""run_of_given: the data's own negatives as a run, with the documents of another run behind them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.data.artifacts import GIVEN_NEGATIVES, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join, with_values
from noisyir.mining import artifacts
from noisyir.mining.settings import GivenRunParams
from noisyir.retrieval.artifacts import BM25_RUN


def run_of_given(job: Job[GivenRunParams]) -> None:
    """Rank the training queries' given negatives in the order of the data, then the other run's documents.

    Raises:
        DataError: If the data gives no training query a negative.
    """
    queries = job.table("queries")
    training = queries.filter(pc.equal(queries["split"], "train"))["query_id"]
    given = job.table("given_negatives").select(PAIR_KEY)
    given = given.filter(pc.is_in(given["query_id"], value_set=training.combine_chunks()))
    if not given.num_rows:
        raise DataError("mining.no_given_negatives")
    job.note("given", {"negatives": given.num_rows, "queries": pc.count_distinct(given["query_id"]).as_py()})
    rows = pa.concat_tables([given, _behind(job, given)]).combine_chunks()
    query = np.asarray(rows["query_id"].combine_chunks().dictionary_encode().indices, np.int64)
    order = np.argsort(query, kind="stable")
    starts = np.searchsorted(query[order], query[order])
    ranks = pa.array(np.arange(len(order)) - starts + 1, pa.int32())
    scores = pa.array(np.zeros(len(order), np.float32))
    job.write("given_run", with_values(rows.take(order), rank=ranks, score=scores))


def _behind(job: Job[GivenRunParams], given: pa.Table) -> pa.Table:
    """The documents of the other run that are not given, best rank first; none without such a run."""
    if not job.has("run"):
        return given.slice(0, 0)
    run, params = job.table("run"), job.params
    within = pc.and_(pc.greater_equal(run["rank"], params.rank_from), pc.less_equal(run["rank"], params.rank_to))
    found = run.filter(within).sort_by([("query_id", "ascending"), ("rank", "ascending")])
    return found.filter(pa.array(~semi_join(found, given))).select(PAIR_KEY)


RUN_OF_GIVEN = Stage(
    name="run_of_given",
    version=1,
    params=GivenRunParams,
    reads={
        "given_negatives": GIVEN_NEGATIVES["query_id", "doc_id"],
        "queries": QUERIES["query_id", "split"],
        "run": BM25_RUN["query_id", "doc_id", "rank"].or_none(),
    },
    writes={"given_run": artifacts.GIVEN_RUN},
    run=run_of_given,
)
