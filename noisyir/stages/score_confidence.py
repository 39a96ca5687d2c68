"""score_confidence: how well readers' confidences tell right labels from wrong ones, update by update."""

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
        if not known.num_rows:
            raise DataError(
                f"score_confidence: none of the {table.num_rows} confidences of {system} is of a judged question: "
                "right passages are those in the qrels"
            )
        by_update = known.sort_by([(name, "ascending") for name in ("update", *CONFIDENCES.key[:-1])])
        instances = by_update.filter(pc.equal(by_update["update"], 0)).combine_chunks()
        right = among(instances, relevant)
        question = instances["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        values = by_update["value"].to_numpy().reshape(-1, len(instances))
        for update, confidence in enumerate(values):
            for measure, value in confidence_quality(confidence, values[0], right, question).items():
                rows.append({"system": system, "update": update, "measure": measure, "value": value})
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
