"""warm_up_ranker: the ranker, taught to tell the right passage of each training query from mined negatives."""

from noisyir.engine.stage import Job, Stage
from noisyir.schemas.training import CURVES, RANKER
from noisyir.stages.training.inputs import (
    RANKING_READS,
    pairs_are_there,
    read_lists,
    start_ranker,
    training_context,
    write_curves,
)
from noisyir.training.launch import in_processes
from noisyir.training.settings import WarmUpRankerParams


@in_processes
def warm_up_ranker(job: Job[WarmUpRankerParams]) -> None:
    """Train the ranker; write it, and how its loss went."""
    from noisyir.training.ranker import warm_up

    ranker = start_ranker(job)
    _, lists = read_lists(job, job.params.n)
    curves = warm_up(ranker, lists, job.params, training_context(job))
    ranker.save(job.new_folder("ranker"))
    write_curves(job, curves)


WARM_UP_RANKER = Stage(
    name="warm_up_ranker",
    version=1,
    params=WarmUpRankerParams,
    reads=RANKING_READS,
    writes={"ranker": RANKER, "curves": CURVES},
    run=warm_up_ranker,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
)
