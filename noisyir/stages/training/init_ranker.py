"""init_ranker: the cross-encoder that a ranker starts from."""

from noisyir.costs.training import initialising
from noisyir.engine.stage import Job, Stage
from noisyir.models.settings import InitRankerParams
from noisyir.models.weights import MINILM, check_minilm, encoder_digest, locate_weights
from noisyir.schemas.training import RANKER

_SETTING = "ranker.init.weights"


def init_ranker(job: Job[InitRankerParams]) -> None:
    """Build the ranker, save it, and note what is new about it.  DataError when the weights cannot give that shape."""
    from noisyir.models.ranker import initial_ranker

    folder = locate_weights(job.params.weights, _SETTING)
    if job.params.weights == MINILM:
        check_minilm(folder)
    ranker, new = initial_ranker(folder, job.params, seed=int(job.rng("head").integers(2**63)))
    job.note("parameters", sum(weight.numel() for weight in ranker.parameters()))
    job.note("new_weights", new)
    ranker.save(job.new_folder("ranker"))


def _weights_digest(params: InitRankerParams) -> str:
    return encoder_digest(params.weights, _SETTING)


INIT_RANKER = Stage(
    name="init_ranker",
    version=1,
    params=InitRankerParams,
    reads={},
    writes={"ranker": RANKER},
    run=init_ranker,
    seeded=True,
    raw={"weights": _weights_digest},
    pool="driver",
    cost=initialising,
)
