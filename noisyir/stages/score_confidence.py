"""score_confidence: how well readers' confidences tell right labels from wrong ones, update by update."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.config import ScoreConfidenceParams
from noisyir.errors import DataError
from noisyir.schemas import CONFIDENCE_QUALITY, CONFIDENCES, QRELS
from noisyir.stage import Job, Stage
from noisyir.tables import among


def score_confidence(job: Job[ScoreConfidenceParams]) -> None:
    """An instance is right where its passage is judged relevant; questions that nobody judged are left out."""
    from noisyir.eval.confidence import confidence_quality

    qrels = job.table("qrels")
    relevant = qrels.filter(pc.greater_equal(qrels["relevance"], job.params.min_relevance))
    rows = []
    for system, table in job.tables("confidences").items():
        known = table.filter(pc.is_in(table["query_id"], value_set=relevant["query_id"].unique()))
        known = known.sort_by([(name, "ascending") for name in CONFIDENCES.key]).combine_chunks()
        if not known.num_rows:
            raise DataError(
                f"score_confidence: none of the {table.num_rows} confidences of {system} is of a judged question: "
                "right passages are those in the qrels"
            )
        right = among(known, relevant)
        question = known["query_id"].dictionary_encode().combine_chunks().indices.to_numpy()
        update, values = known["update"].to_numpy(), known["value"].to_numpy()
        for number in np.unique(update):
            at = update == number
            for measure, value in confidence_quality(values[at], right[at], question[at]).items():
                rows.append({"system": system, "update": int(number), "measure": measure, "value": value})
    job.write("confidence_quality", pa.Table.from_pylist(rows, schema=CONFIDENCE_QUALITY.schema))


SCORE_CONFIDENCE = Stage(
    name="score_confidence",
    version=1,
    params=ScoreConfidenceParams,
    reads={
        "confidences": CONFIDENCES.all().each(),
        "qrels": QRELS.all(),
    },
    writes={"confidence_quality": CONFIDENCE_QUALITY},
    run=score_confidence,
)
