"""score_detection: detectors against the truth about added noise."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.data.artifacts import NOISE_TRUTH
from noisyir.detection.artifacts import NOISE_ESTIMATE
from noisyir.engine.meta import Meta
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.evaluation.artifacts import DETECTION
from noisyir.evaluation.detection import detection_quality
from noisyir.evaluation.pages.detection import flag_warnings
from noisyir.evaluation.settings import ScoreDetectionParams
from noisyir.training.artifacts import NOISE_FLAGS

_ESTIMATES = ("rate", "rate_low", "rate_high")


def score_detection(job: Job[ScoreDetectionParams]) -> None:
    """Score every system's verdicts of every epoch on pairs with a known truth, and its noise rate."""
    truth = job.table("truth")
    with job.writer("detection") as out:
        for system, flags in job.tables("flags").items():
            if not flags.num_rows:  # the method's flags were given
                continue
            known = flags.join(truth, PAIR_KEY, join_type="inner")
            if not known.num_rows:
                raise DataError(
                    "evaluation.no_pair_with_truth", flagged=flags.num_rows, system=system, known=truth.num_rows
                )
            job.note(system, {"pairs": flags.num_rows, "without_truth": flags.num_rows - known.num_rows})
            for epoch in sorted(known["epoch"].unique().to_pylist()):
                rows = known.filter(pa.compute.equal(known["epoch"], epoch))
                columns = (rows[name].to_numpy() for name in ("score", "is_clean", "is_noisy"))
                quality = detection_quality(*columns)
                if not quality["true_rate"]:  # no noise was put in, and the data's own is unknown
                    del quality["true_rate"]
                out.append(_rows(system, epoch, quality))
        for system, estimate in job.tables("estimate").items():
            for epoch, values in _by_epoch(estimate).items():
                out.append(_rows(system, epoch, values))


def _by_epoch(estimate: pa.Table) -> dict[int, dict[str, float]]:
    values: dict[int, dict[str, float]] = {}
    for row in estimate.to_pylist():
        if row["name"] in _ESTIMATES:
            values.setdefault(row["epoch"], {})[row["name"]] = row["value"]
    return values


def _rows(system: str, epoch: int, values: dict[str, float]) -> pa.Table:
    rows = [{"system": system, "epoch": epoch, "measure": name, "value": value} for name, value in values.items()]
    return pa.Table.from_pylist(rows, schema=DETECTION.schema)


def _story(meta: Meta, store: Store) -> Iterator[str]:
    yield from flag_warnings(store.builds.table(meta.ref("detection")))


SCORE_DETECTION = Stage(
    name="score_detection",
    version=3,
    params=ScoreDetectionParams,
    reads={
        "truth": NOISE_TRUTH["query_id", "doc_id", "is_noisy"],
        "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "score", "is_clean"].each(),
        "estimate": NOISE_ESTIMATE.all().each(),
    },
    writes={"detection": DETECTION},
    run=score_detection,
    pool="driver",
    story=_story,
)
