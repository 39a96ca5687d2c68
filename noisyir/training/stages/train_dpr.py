"""train_dpr: DPR training of the initial model on pairs with in-batch and mined negatives."""

from collections.abc import Mapping, Sequence
from typing import Any

from noisyir.engine.stage import Job, Stage
from noisyir.models.artifacts import MODEL
from noisyir.training.artifacts import CURVES
from noisyir.training.launch import in_processes
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.inputs import (
    TRAINING_READS,
    pairs_are_there,
    product,
    read_examples,
    start_model,
    training_context,
    training_pairs,
    write_model,
)


@in_processes
def train_dpr(job: Job[TrainDprParams]) -> None:
    """Train the model; write it with its learning curves."""
    from noisyir.training.bi_encoder import train
    from noisyir.training.learner import Contrastive

    encoder, pairs = start_model(job), training_pairs(job)
    counts = ["weight"] if job.has("weights") else []
    if job.has("flags") and job.params.flagged == "drop":
        pairs = pairs.filter(pairs["is_clean"])
    elif job.has("flags"):
        counts.append("p_clean")
    examples, held = read_examples(job, encoder, pairs)
    curves = train(encoder, examples, held, job.params, Contrastive(product(pairs, counts)), training_context(job))
    write_model(job, encoder, curves)


def full_retriever(params: TrainDprParams, start: Mapping[str, Any]) -> Sequence[Any]:
    """Build its learner on full-length texts for a dry run."""
    from noisyir.training.full_size import retriever_learners

    return retriever_learners(params, start)


TRAIN_DPR = Stage(
    name="train_dpr",
    stream="warm_up",
    version=2,
    params=TrainDprParams,
    reads=TRAINING_READS,
    writes={"model": MODEL, "curves": CURVES},
    run=train_dpr,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
    learners=full_retriever,
)
