"""The toy task trained; at a given step it may kill its very process, as kill -9 does."""

import os
import signal
from pathlib import Path

import torch

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.settings import LoraParams
from noisyir.training.bi_encoder import train as train_model
from noisyir.training.learner import Contrastive
from noisyir.training.run import Point
from noisyir.training.settings import TrainDprParams
from tests.tiny_models import tiny_encoder
from tests.unit.training.taught import BOTH, distillation, settings
from tests.unit.training.toy import toy_held, toy_pairs, training_context


def train(
    bert: Path, work: Path, backbone: str, objective: str, *, die_at: int | None = None
) -> tuple[BiEncoder, list[Point], list[int]]:
    """The model, its curves, and the steps that this process took."""
    torch.set_num_threads(1)  # as sums are rounded by who adds what; stages that ran here before may have set more
    kind, _, learns = backbone.partition(" by ")
    encoder = tiny_encoder(bert, backbone=kind, layers=1)
    taken: list[int] = []

    def metric(name: str, value: float, step: int) -> None:
        if name == "train_loss":
            taken.append(step)
            if step == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    params = {
        "epochs": 4, "batch_size": 5, "learning_rate": 0.01, "patience": 3,
        "lora": LoraParams(rank=4 if learns else 0, dropout=0.1), "matryoshka": (8,) if learns else (),
    }  # fmt: skip
    encoder.limit(None, params["lora"], seed=3)
    context = training_context(work, checkpoint_seconds=1e-9, metric=metric)
    if objective == "distillation":
        taught = settings(BOTH, **params)
        pairs, loss = distillation(encoder, taught)
        curves = train_model(encoder, pairs, toy_held(encoder), taught, loss, context)
    else:
        plain, pairs = TrainDprParams(**params, hard_negatives=1), toy_pairs(encoder, negatives=2)
        curves = train_model(encoder, pairs, toy_held(encoder), plain, Contrastive(), context)
    return encoder, curves, taken
