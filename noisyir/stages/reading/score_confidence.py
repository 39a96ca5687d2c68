"""score_confidence: how well readers' confidences tell right labels from wrong ones, update by update."""

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join
from noisyir.errors import DataError
from noisyir.eval.settings import ScoreConfidenceParams
from noisyir.schemas.reading import CONFIDENCE_QUALITY, CONFIDENCES, GOLD_RUN


def score_confidence(job: Job[ScoreConfidenceParams]) -> None:
    """An instance is right where its passage is given as relevant; questions that have none are left out."""
    from noisyir.eval.detection import confidence_quality

    relevant = job.table("given")
    rows = []
    for system, table in job.tables("confidences").items():
        known = table.filter(pc.is_in(table["query_id"], value_set=relevant["query_id"].unique()))
        if not known.num_rows:
            raise DataError(
                f"score_confidence: none of the {table.num_rows} confidences of {system} is of a question with "
                "relevant passages: judgements, or pairs that nobody judged, must name some of training questions"
            )
        by_update = known.sort_by([(name, "ascending") for name in ("update", *CONFIDENCES.key[:-1])])
        instances = by_update.filter(pc.equal(by_update["update"], 0)).combine_chunks()
        right = semi_join(instances, relevant)
        question = instances["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        values = by_update["value"].to_numpy().reshape(-1, len(instances))
        for update, confidence in enumerate(values):
            for measure, value in confidence_quality(confidence, values[0], right, question).items():
                rows.append({"system": system, "update": update, "measure": measure, "value": value})
    job.write("confidence_quality", pa.Table.from_pylist(rows, schema=CONFIDENCE_QUALITY.schema))


SCORE_CONFIDENCE = Stage(
    name="score_confidence",
    version=2,
    params=ScoreConfidenceParams,
    reads={"confidences": CONFIDENCES.all().each(), "given": GOLD_RUN["query_id", "doc_id"]},
    writes={"confidence_quality": CONFIDENCE_QUALITY},
    run=score_confidence,
    pool="driver",
)
