"""A further machine of a run under torchrun: it takes its part in each stage that the first one trains."""

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from noisyir.engine.build_stage import recorded
from noisyir.engine.known_stages import stage_named
from noisyir.engine.processes import PeerLostError
from noisyir.engine.remote.parallel import PortableJob
from noisyir.engine.remote.torchrun import Launched
from noisyir.engine.runtime import default_home
from noisyir.engine.store import Store
from noisyir.training.launch import Call, ProcessPart, take_part

log = logging.getLogger("noisyir")


def follow(begun: Launched) -> None:
    """Train with the first machine, stage after stage, until its run is over.

    The store is the first machine's, so a folder must be one that both see.  ConfigError where the two have other
    versions of noisyir; NoisyirError where a process of this machine was killed, or the first machine is gone.
    """
    for meeting, message in begun.calls():
        call = Call.model_validate_json(message)
        step, inputs = call.step.open(stage_named)
        store = Store(call.store, home=default_home())
        work = store.work.folder(step.stage.name, step.key, recorded(inputs))
        with TemporaryDirectory(prefix="noisyir-") as staging:
            job = PortableJob(step, inputs, store.url, store.home, call.runtime, Path(staging), work)
            try:
                take_part(job, ProcessPart(begun.first_rank, begun.here, begun.size, meeting), hear=_nothing)
            except PeerLostError as error:  # the first machine tells why, and may begin anew
                log.warning("%s: %s", step.name, error)


def _nothing(message: object) -> None:
    """Print nothing: the first process of all tells it."""
