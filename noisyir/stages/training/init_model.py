"""The bi-encoder that training starts from: existing weights in the experiment's shape."""

from noisyir.costs.training import initialising
from noisyir.engine.stage import Job, Stage
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import MINILM, check_minilm, locate_weights, weights_digest
from noisyir.schemas.training import MODEL


def init_model(job: Job[InitModelParams]) -> None:
    """Build the model, save it, and note what it is.  DataError when the weights cannot give that shape."""
    from noisyir.models.initial import initial_bi_encoder

    folder = locate_weights(job.params.weights)
    if job.params.weights == MINILM:
        check_minilm(folder)
    encoder = initial_bi_encoder(folder, job.params)
    job.note("dimension", encoder.dim)
    job.note("parameters", sum(weight.numel() for weight in encoder.parameters()))
    encoder.save(job.new_folder("model"))


INIT_MODEL = Stage(
    name="init_model",
    version=1,
    params=InitModelParams,
    reads={},
    writes={"model": MODEL},
    run=init_model,
    raw={"weights": weights_digest},
    pool="driver",
    cost=initialising,
)
