"""Worker machines of a torchrun run: each joins every stage that the first machine trains."""

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
    """Train with the first machine, stage by stage, until its run ends.

    The store belongs to the first machine, so it must be a folder that both can access.
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
            except PeerLostError as error:  # the first machine reports the cause and may start again
                log.warning("%s: %s", step.name, error)


def _nothing(message: object) -> None:
    """Print nothing; the first process reports the message."""
