"""compare: the systems of a run side by side, with intervals and corrected p-values."""

from noisyir.engine.stage import Job, Stage
from noisyir.eval import comparison as systems
from noisyir.eval.settings import CompareParams
from noisyir.schemas.results import COMPARISON, METRICS


def compare(job: Job[CompareParams]) -> None:
    """Compare every system with the baseline, and the last with every other."""
    job.write(
        "comparison",
        systems.compare(job.tables("metrics"), baseline=job.params.baseline, confidence=job.params.confidence),
    )


COMPARE = Stage(
    name="compare",
    version=3,
    params=CompareParams,
    reads={"metrics": METRICS.all().each()},
    writes={"comparison": COMPARISON},
    run=compare,
    pool="driver",
)
