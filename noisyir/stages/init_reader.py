"""init_reader: the reader that training starts from, an encoder and a span head."""

from noisyir.config import InitReaderParams
from noisyir.schemas import READER
from noisyir.stage import Job, Stage


def init_reader(job: Job[InitReaderParams]) -> None:
    """Build the reader, save it, and note what is new about it.  DataError when the weights cannot give that shape."""
    from noisyir.models.reader import initial_reader
    from noisyir.models.weights import MINILM, check_minilm, locate_weights

    folder = locate_weights(job.params.weights, "reader.init.weights")
    if job.params.weights == MINILM:
        check_minilm(folder)
    reader, new = initial_reader(folder, job.params, seed=int(job.rng("head").integers(2**63)))
    job.note("parameters", sum(weight.numel() for weight in reader.parameters()))
    job.note("new_weights", new)
    reader.save(job.new_folder("reader"))


INIT_READER = Stage(
    name="init_reader",
    version=1,
    params=InitReaderParams,
    reads={},
    writes={"reader": READER},
    run=init_reader,
    seeded=True,
    raw=("weights",),
    pool="driver",
)
