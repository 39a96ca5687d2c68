"""Distillation: a retriever learns a teacher's scored lists; no code that other methods use."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.engine.stage import Job, Output, Outputs, Stage, told
from noisyir.engine.tables import semi_join
from noisyir.methods.plans.method import Method
from noisyir.models.artifacts import MODEL
from noisyir.training.artifacts import CURVES, TEACHER_SCORES
from noisyir.training.launch import in_processes
from noisyir.training.settings import TrainDistillParams
from noisyir.training.stages.inputs import (
    TRAINING_READS,
    join_examples,
    pairs_are_there,
    product,
    start_model,
    training_context,
    training_pairs,
    write_model,
)

if TYPE_CHECKING:
    from noisyir.methods.distill.objective import Distillation
    from noisyir.methods.plans.context import Context

log = logging.getLogger("noisyir")


class Distill(Method, kind="distill"):
    """Learn the scores of the experiment's teacher; `distill.contrastive` adds the given pairs."""

    def train(self, context: "Context") -> Outputs:
        """Score lists, then learn them."""
        return distilled(context, self.kind, context.exp.distilling(0.0), context.teacher_scores())


class DistillContrast(Method, kind="distill_contrast"):
    """Distillation plus a tenth of the contrastive loss of the given pairs, as in CADET's code."""

    def train(self, context: "Context") -> Outputs:
        """Score lists, then learn them and the pairs."""
        return distilled(context, self.kind, context.exp.distilling(0.1), context.teacher_scores())


def distilled(context: "Context", kind: str, params: TrainDistillParams, lists: Output) -> Outputs:
    """Plan the training on these lists, with the experiment's flags if `distill.flagged` uses them."""
    inputs, flagged = {"pairs": context.noisy["noisy_pairs"]}, params.distill.flagged
    if flagged == "relabel":
        repaired = context.repaired()
        inputs = {"pairs": repaired["repaired_pairs"], "flags": repaired["repaired_flags"]}
    elif flagged != "keep":
        inputs["flags"] = context.flags()["noise_flags"]
    return context.train(TRAIN_DISTILL, params, kind, negatives=None, lists=lists, **inputs)


@in_processes
def train_distill(job: Job[TrainDistillParams]) -> None:
    """Train the model on the lists; write it and its curves."""
    from noisyir.methods.distill.objective import Distillation
    from noisyir.training import examples
    from noisyir.training.batches import ListedPairs
    from noisyir.training.bi_encoder import train

    encoder, pairs, lists = start_model(job), training_pairs(job), job.table("lists")
    pairs, lists = _with_lists(job, pairs, lists)
    pairs, queries = examples.training_queries(pairs, job.table("queries"))
    known, held, _ = join_examples(job, encoder, pairs, queries, lists.select(["query_id", "doc_id"]))
    query = pc.index_in(lists["query_id"], value_set=queries["query_id"].combine_chunks()).to_numpy()
    score = lists["score"].to_numpy()[np.argsort(query, kind="stable")]  # as the passages in `negatives`
    listed = ListedPairs(**vars(known), score=score.astype(np.float64))
    objective = Distillation(listed, job.params, product(pairs, _counts(job)))
    _log_temperatures(job, objective)
    write_model(job, encoder, train(encoder, listed, held, job.params, objective, training_context(job)))


def _with_lists(job: Job[TrainDistillParams], pairs: pa.Table, lists: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The pairs that have a list for their query, and these lists; the rest is noted and logged.

    Raises:
        DataError: If a score is not finite, or no pair has a list.
    """
    if bad := int((~np.isfinite(lists["score"].to_numpy())).sum()):
        raise DataError("methods.teacher_scores_not_finite", bad=bad, scores=len(lists))
    kept = pairs.filter(pc.is_in(pairs["query_id"], value_set=lists["query_id"].combine_chunks()))
    lists = lists.filter(pc.is_in(lists["query_id"], value_set=kept["query_id"].combine_chunks()))
    without = len(kept) - int(semi_join(kept, lists.select(["query_id", "doc_id"])).sum())
    found = {"pairs": len(kept), "documents": len(lists), "no_list": len(pairs) - len(kept), "not_in_list": without}
    job.note("lists", found)
    if len(pairs) and not len(kept):
        raise DataError("methods.no_pair_with_list", pairs=len(pairs))
    if found["no_list"] or without:
        log.warning(
            "%(no_list)d training pairs have no scored list, and are left out; of %(not_in_list)d the own document is "
            "not in the list, and counts in the contrastive loss alone", found,
        )  # fmt: skip
    return kept, lists


def _counts(job: Job[TrainDistillParams]) -> list[str]:
    """The columns that multiply a pair's contrastive loss."""
    flagged = job.params.distill.flagged
    verdict = {"drop": ["is_clean"], "weight": ["p_clean"], "relabel": ["p_clean"]}.get(flagged, [])
    return [*verdict, *(["weight"] if job.has("weights") else [])]


def _log_temperatures(job: Job[TrainDistillParams], objective: "Distillation") -> None:
    """Note the temperatures, and warn if the teacher's softmax underflows."""
    from noisyir.methods.distill.objective import list_spreads
    from noisyir.training.losses.distillation import underflowing

    spreads = list_spreads(objective.pairs)
    teacher, share = objective.teacher_temperature, underflowing(spreads, objective.teacher_temperature)
    found = {"spread": float(np.median(spreads)), "teacher": teacher, "student": objective.student_temperature}
    job.note("temperatures", {**found, "underflow": share})
    log.info("teacher's scores spread over %(spread).4g in the median list; temperature %(teacher).4g", found)
    if share:
        log.warning(
            "in %.1f %% of the lists the teacher's softmax underflows at distill.teacher_temperature=%g, and the last "
            "documents drop out of the loss: set it to a quarter of the spread, %.4g, or leave it out",
            100 * share, teacher, found["spread"] / 4,
        )  # fmt: skip


def full_distillation(params: TrainDistillParams, start: Mapping[str, Any]) -> Sequence[Any]:
    """Its learner on texts of full length, for a dry run."""
    from noisyir.methods.distill.objective import Distillation
    from noisyir.training.batches import ListedPairs
    from noisyir.training.full_size import retriever_learners

    def objective(_: Any, pairs: Any) -> Distillation:
        score = np.arange(len(pairs.negatives.values), dtype=np.float64)
        return Distillation(ListedPairs(**vars(pairs), score=score), params, None)

    return retriever_learners(params, start, objective)


TRAIN_DISTILL = Stage(
    name="train_distill",
    stream="distill",
    version=1,
    params=TrainDistillParams,
    reads={name: read for name, read in TRAINING_READS.items() if name != "negatives"}
    | {"lists": TEACHER_SCORES["query_id", "doc_id", "score"]},
    writes={"model": MODEL, "curves": CURVES},
    run=train_distill,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
    learners=full_distillation,
    story=partial(
        told, "temperatures", "Distillation: lists spread over {spread:.4g}; temperature of the teacher {teacher:.4g}."
    ),
)
