"""init_model, init_ranker: the initial models, from existing weights, some with a new head."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from noisyir.engine.stage import Job, Stage
from noisyir.models.artifacts import MODEL, RANKER
from noisyir.models.settings import HeadedParams, InitModelParams, InitRankerParams
from noisyir.models.weights import MINILM, check_minilm, encoder_digest, locate_weights, weights_digest


def init_model(job: Job[InitModelParams]) -> None:
    """Build the bi-encoder, save it and note its size."""
    from noisyir.models.bi_encoder import initial_bi_encoder

    encoder = initial_bi_encoder(_weights(job, "model.weights"), job.params)
    job.note("dimension", encoder.dim)
    _save(job, encoder, "model")


def init_ranker(job: Job[InitRankerParams]) -> None:
    """Build the ranker, save it and note its new weights."""
    from noisyir.models.ranker import initial_ranker

    init_with_head(job, initial_ranker, "ranker")


def init_with_head(job: Job[Any], initial: Callable[..., tuple[Any, list[str]]], kind: str) -> None:
    """Build a model with a head, save it and note its new weights."""
    folder = _weights(job, f"{kind}.init.weights")
    model, new = initial(folder, job.params, seed=int(job.rng("head").integers(2**63)))
    _save(job, model, kind)
    job.note("new_weights", new)


def _weights(job: Job[Any], setting: str) -> Path:
    """Return the folder of the weights, after a check of the packaged ones."""
    folder = locate_weights(job.params.weights, setting)
    if job.params.weights == MINILM:
        check_minilm(folder)
    return folder


def _save(job: Job[Any], model: Any, name: str) -> None:
    job.note("parameters", sum(weight.numel() for weight in model.parameters()))
    model.save(job.new_folder(name))


def digest_of_encoder(params: HeadedParams, kind: str) -> str:
    """Digest the weights that get the head."""
    return encoder_digest(params.weights, f"{kind}.init.weights")


INIT_MODEL = Stage(
    name="init_model",
    version=2,
    params=InitModelParams,
    reads={},
    writes={"model": MODEL},
    run=init_model,
    raw={"weights": weights_digest},
    pool="driver",
)
INIT_RANKER = Stage(
    name="init_ranker",
    version=1,
    params=InitRankerParams,
    reads={},
    writes={"ranker": RANKER},
    run=init_ranker,
    seeded=True,
    raw={"weights": partial(digest_of_encoder, kind="ranker")},
    pool="driver",
)
