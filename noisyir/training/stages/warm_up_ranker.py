"""warm_up_ranker: training of the ranker to tell each query's positive from mined negatives."""

from collections.abc import Mapping, Sequence
from typing import Any

from noisyir.engine.stage import Job, Stage
from noisyir.models.artifacts import RANKER
from noisyir.training.artifacts import CURVES
from noisyir.training.launch import in_processes
from noisyir.training.settings import WarmUpRankerParams
from noisyir.training.stages.inputs import (
    RANKING_READS,
    pairs_are_there,
    read_lists,
    start_ranker,
    training_context,
    write_curves,
)


@in_processes
def warm_up_ranker(job: Job[WarmUpRankerParams]) -> None:
    """Train the ranker; write it with its learning curves."""
    from noisyir.training.ranker import warm_up

    ranker = start_ranker(job)
    _, lists = read_lists(job, job.params.n)
    curves = warm_up(ranker, lists, job.params, training_context(job))
    ranker.save(job.new_folder("ranker"))
    write_curves(job, curves)


def full_ranker(params: WarmUpRankerParams, start: Mapping[str, Any]) -> Sequence[Any]:
    """Build its learner on full-length texts for a dry run."""
    from noisyir.training import full_size
    from noisyir.training.ranker import warming_up

    lists = full_size.full_lists(params.batch_size, params.n)
    return [warming_up(full_size.ranker(start["ranker"]), lists, params, full_size.constant_rng)]


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
    learners=full_ranker,
)
