"""A training stage that fails on request, in one of its processes: NOISYIR_TEST_FAIL="RANK STEP kill|raise"."""

import os
import signal
from dataclasses import replace
from pathlib import Path

from noisyir.base.errors import DataError
from noisyir.base.settings import Params
from noisyir.engine.stage import Job, Stage
from noisyir.models.artifacts import MODEL
from noisyir.training.artifacts import CURVES
from noisyir.training.bi_encoder import train
from noisyir.training.distributed import world
from noisyir.training.launch import in_processes
from noisyir.training.learner import Contrastive
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.inputs import training_context, write_curves
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import toy_held, toy_pairs

STEPS = 20


class FragileParams(Params):
    """Where the start model is."""

    bert: str


@in_processes
def fragile(job: Job[FragileParams]) -> None:
    """Train the toy task with a checkpoint at every step."""
    rank, step, how = os.environ.get("NOISYIR_TEST_FAIL", "-1 -1 never").split()

    def metric(name: str, value: float, at: int) -> None:
        job.metric(name, value, at)
        if (name, world().rank, at) == ("train_loss", int(rank), int(step)):
            if how == "raise":
                raise DataError(f"rank {rank} does not like step {step}")
            os.kill(os.getpid(), signal.SIGKILL)

    encoder = tiny_encoder(Path(job.params.bert), backbone="static")
    params = TrainDprParams(epochs=4, batch_size=5, learning_rate=0.01, hard_negatives=1, patience=4)
    context = replace(training_context(job), metric=metric, checkpoint_seconds=1e-9)
    curves = train(encoder, toy_pairs(encoder, negatives=2), toy_held(encoder), params, Contrastive(), context)
    encoder.save(job.new_folder("model"))
    write_curves(job, curves)


FRAGILE = Stage("fragile", 1, FragileParams, {}, {"model": MODEL, "curves": CURVES}, fragile, seeded=True)
