"""init_reader: the reader that training starts from, an encoder and a span head."""

from noisyir.costs.training import initialising
from noisyir.engine.stage import Job, Stage
from noisyir.models.settings import InitReaderParams
from noisyir.models.weights import MINILM, check_minilm, encoder_digest, locate_weights
from noisyir.schemas.reading import READER

_SETTING = "reader.init.weights"


def init_reader(job: Job[InitReaderParams]) -> None:
    """Build the reader, save it, and note what is new about it.  DataError when the weights cannot give that shape."""
    from noisyir.models.reader import initial_reader

    folder = locate_weights(job.params.weights, _SETTING)
    if job.params.weights == MINILM:
        check_minilm(folder)
    reader, new = initial_reader(folder, job.params, seed=int(job.rng("head").integers(2**63)))
    job.note("parameters", sum(weight.numel() for weight in reader.parameters()))
    job.note("new_weights", new)
    reader.save(job.new_folder("reader"))


def _weights_digest(params: InitReaderParams) -> str:
    return encoder_digest(params.weights, _SETTING)


INIT_READER = Stage(
    name="init_reader",
    version=1,
    params=InitReaderParams,
    reads={},
    writes={"reader": READER},
    run=init_reader,
    seeded=True,
    raw={"weights": _weights_digest},
    pool="driver",
    cost=initialising,
)
