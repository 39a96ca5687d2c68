"""Co-teaching: two models, each taught by the pairs of small loss to the other (Han et al., NeurIPS 2018).

Its method and its stage are here, and nothing that other methods use.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute

from noisyir.base.errors import ConfigError, DataError
from noisyir.detection.artifacts import NOISE_ESTIMATE
from noisyir.engine.stage import Job, Outputs, Stage, told
from noisyir.methods.plans.method import Method
from noisyir.models.artifacts import MODEL
from noisyir.training.artifacts import CURVES
from noisyir.training.launch import in_processes
from noisyir.training.settings import TrainCoTeachingParams
from noisyir.training.stages.inputs import (
    TRAINING_READS,
    pairs_are_there,
    read_examples,
    start_model,
    training_context,
    training_pairs,
    write_model,
)

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context


class CoTeaching(Method):
    """The share of pairs dropped is the noise rate that the experiment's detectors estimate."""

    kind: Literal["co_teaching"] = "co_teaching"

    def train(self, context: "Context") -> Outputs:
        """Estimate the rate, then train both."""
        context.refuse_weights("co_teaching")
        pairs, estimate = context.noisy["noisy_pairs"], context.flags()["noise_estimate"]
        return context.train(TRAIN_CO_TEACHING, context.exp.teaching(), "co_teaching", pairs=pairs, estimate=estimate)


@in_processes
def train_co_teaching(job: Job[TrainCoTeachingParams]) -> None:
    """Train two models by each other's small losses; write the first of them, and its curves."""
    from noisyir.methods.co_teaching.learner import CoTeachingRun
    from noisyir.training.bi_encoder import train

    if job.params.epochs == 1:
        raise ConfigError("methods.co_teaching_drops_no")
    noise_rate = _noise_rate(job.table("estimate"))
    job.note("noise_rate", noise_rate)
    encoder = start_model(job)
    examples, held = read_examples(job, encoder, training_pairs(job))
    both = CoTeachingRun(encoder, examples, job.params, job.rng, noise_rate)
    write_model(job, encoder, train(encoder, examples, held, job.params, both, training_context(job)))


def _noise_rate(estimate: pa.Table) -> float:
    """The last epoch's `rate`; DataError where there is none, or where it leaves no pair to learn from."""
    rates = estimate.filter(pa.compute.equal(estimate["name"], "rate")).sort_by("epoch")["value"].to_pylist()
    if not rates:
        raise DataError("methods.co_teaching_needs_noise")
    if rates[-1] >= 1.0:
        raise DataError("methods.noise_rate_estimated_leaves", rates=rates[-1])
    return float(rates[-1])


def full_pair(params: TrainCoTeachingParams, start: Mapping[str, Any]) -> Sequence[Any]:
    """The learner that has its peer beside it, on texts of full length, for a dry run."""
    from noisyir.methods.co_teaching.learner import CoTeachingRun
    from noisyir.training.full_size import constant_rng, retriever_learners

    def taught(encoder: Any, pairs: Any) -> CoTeachingRun:
        return CoTeachingRun(encoder, pairs, params, constant_rng, 0.0)

    return retriever_learners(params, start, taught)


TRAIN_CO_TEACHING = Stage(
    name="train_co_teaching",
    stream="co_teach",
    version=1,
    params=TrainCoTeachingParams,
    reads={name: read for name, read in TRAINING_READS.items() if name != "flags"} | {"estimate": NOISE_ESTIMATE.all()},
    writes={"model": MODEL, "curves": CURVES},
    run=train_co_teaching,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
    learners=full_pair,
    story=partial(told, "noise_rate", "Co-teaching left out up to {:.1%} of the pairs, of the largest losses."),
)
