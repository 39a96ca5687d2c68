"""gold_run: the passages that the data calls relevant, as a run: for close-domain reading and gold labels."""

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join
from noisyir.errors import DataError
from noisyir.readers.settings import GoldRunParams
from noisyir.schemas.data import PAIRS, QRELS
from noisyir.schemas.reading import GOLD_RUN


def gold_run(job: Job[GoldRunParams]) -> None:
    """Rank each query's relevant documents, the most relevant first, equals by id; the score is the judgement.

    A pair that nobody judged, as training pairs often are, counts as the least that is relevant.
    """
    from noisyir.retrieval.texts import places

    qrels, pairs, least = job.table("qrels"), job.table("pairs"), job.params.min_relevance
    unjudged = pairs.filter(pa.array(~semi_join(pairs, qrels)))
    relevance = pa.array([least] * len(unjudged), pa.int32())
    added = unjudged.append_column("relevance", relevance).select(QRELS.schema.names).cast(QRELS.schema)
    found = pa.concat_tables([qrels.filter(pc.greater_equal(qrels["relevance"], least)).cast(QRELS.schema), added])
    if not found.num_rows:
        raise DataError(
            f"gold_run: none of {qrels.num_rows} judgements is {least} or more, so no passage is given: set "
            "data.min_relevance, or reader.passages without given"
        )
    found = found.sort_by([("query_id", "ascending"), ("relevance", "descending"), ("doc_id", "ascending")])
    _, place = places(found)
    job.write(
        "gold_run",
        found.select(["query_id", "doc_id"])
        .append_column("rank", pa.array(place + 1, pa.int32()))
        .append_column("score", found["relevance"].cast(pa.float32())),
    )


GOLD = Stage(
    name="gold_run",
    version=2,
    params=GoldRunParams,
    reads={"qrels": QRELS.all(), "pairs": PAIRS["query_id", "doc_id"]},
    writes={"gold_run": GOLD_RUN},
    run=gold_run,
    pool="driver",
)
