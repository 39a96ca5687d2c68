"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023); no code that other methods use.

By default it detects and does not correct; `npc.consistency=1` adds the correction.  The other ablations of the paper
(Tables 3 and 5) are `npc.detect=never`, `npc.detect=once` and `npc.hard_negatives=1`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError
from noisyir.detection.artifacts import NULL_SCORES, PAIR_SCORES
from noisyir.detection.settings import TrainNpcParams
from noisyir.engine.meta import Meta
from noisyir.engine.stage import Job, Outputs, Stage
from noisyir.engine.store import Store
from noisyir.engine.tables import listed
from noisyir.methods.plans.method import Method
from noisyir.models.artifacts import MODEL
from noisyir.training.artifacts import CURVES, NOISE_FLAGS
from noisyir.training.launch import in_processes
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

if TYPE_CHECKING:
    from noisyir.methods.npc.objective import Detected
    from noisyir.methods.plans.context import Context


class Npc(Method, kind="npc"):
    """The paper's method: pairs are flagged by the model's own loss before each epoch."""

    def train(self, context: "Context") -> Outputs:
        """Detect, correct, train."""
        params = _checked(context.exp.correction())
        return context.train(TRAIN_NPC, params, "npc", pairs=context.noisy["noisy_pairs"])


class NpcFlags(Method, kind="npc_flags"):
    """Correction by the flags of the experiment's detectors."""

    def train(self, context: "Context") -> Outputs:
        """Flagged pairs keep the consistency loss alone."""
        params, flags = _checked(context.exp.correction(detect="given")), context.flags()["noise_flags"]
        return context.train(TRAIN_NPC, params, "npc_flags", pairs=context.noisy["noisy_pairs"], flags=flags)


class NpcRelabel(Method, kind="npc_relabel"):
    """Correction after relabelling: relabelled pairs count as clean, flagged ones keep the consistency loss alone."""

    def train(self, context: "Context") -> Outputs:
        """Relabel, then correct the remaining pairs."""
        params, repaired = _checked(context.exp.correction(detect="given")), context.repaired()
        pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
        return context.train(TRAIN_NPC, params, "npc_relabel", pairs=pairs, flags=flags)


@in_processes
def train_npc(job: Job[TrainNpcParams]) -> None:
    """Train, and write the model, its curves, and the scores and flags of each detection."""
    from noisyir.methods.npc.objective import NoisyPairCorrection
    from noisyir.training.bi_encoder import train

    settings = job.params.npc
    if (settings.detect == "given") != job.has("flags"):
        raise ConfigError("methods.npc_flags_mismatch")
    _checked(job.params)
    encoder, pairs = start_model(job), training_pairs(job)
    is_clean, p_clean = (
        pairs[name].to_numpy(zero_copy_only=False) if job.has("flags") else None for name in ("is_clean", "p_clean")
    )
    examples, held = read_examples(job, encoder, pairs)
    weights = product(pairs, ["weight"] if job.has("weights") else [])
    correction = NoisyPairCorrection(encoder, examples, job.params, job.rng, is_clean, p_clean, weights)
    curves = train(encoder, examples, held, job.params, correction, training_context(job))
    write_model(job, encoder, curves)
    ids = pairs.select(["query_id", "doc_id"])
    with job.writer("pair_scores") as scores, job.writer("noise_flags") as flags:
        for found in correction.history:
            scores.append(table := _detection(ids, found))
            flags.append(table)


def _checked(params: TrainNpcParams) -> TrainNpcParams:
    """The settings, refused if they contradict each other: before the first stage, and in a stage that runs alone."""
    check_warm_up(params)
    if params.npc.hard_negatives and not params.hard_negatives:
        raise ConfigError("methods.npc_without_negatives", hard_negatives=params.npc.hard_negatives)
    if params.npc.final == "teacher" and params.patience is not None:
        raise ConfigError("methods.npc_teacher_or_patience")
    return params


def check_warm_up(params: TrainNpcParams) -> None:
    """Refuse a warm-up that leaves no epoch to correct.

    Raises:
        ConfigError: If it has as many epochs as the training, or more.
    """
    if (warm := params.npc.warmup_epochs) >= params.epochs:
        raise ConfigError("methods.npc_warmup_too_long", warmup_epochs=warm, epochs=params.epochs, enough=warm + 1)


def _detection(ids: pa.Table, found: "Detected") -> pa.Table:
    """The columns of both tables; columns of other detectors are null."""
    columns = {name: pa.nulls(ids.num_rows) for name in (*NULL_SCORES, "best_other", "replacement")}
    columns |= {name: pa.array(getattr(found, name)) for name in ("score", "p_clean", "is_clean")}
    columns["random_scores"] = listed(found.null_score[:, None])
    columns["epoch"] = pa.array([found.epoch] * ids.num_rows, pa.int32())
    return pa.table({**{name: ids[name] for name in ids.column_names}, **columns})


def _story(meta: Meta, store: Store) -> Iterator[str]:
    flags = store.builds.table(meta.ref("noise_flags"), ("epoch", "is_clean"))
    if not flags.num_rows:
        return
    last = pc.max(flags["epoch"]).as_py()
    clean = flags.filter(pc.equal(flags["epoch"], last))["is_clean"].to_pylist()
    wrong = f"{clean.count(False):,} of {len(clean):,}"
    yield f"Noisy pair correction: at its last detection, after epoch {last}, it held {wrong} pairs for wrong."


def full_correction(params: TrainNpcParams, start: Mapping[str, Any]) -> Sequence[Any]:
    """Its learner on texts of full length after the warm-up, for a dry run."""
    from noisyir.methods.npc.objective import NoisyPairCorrection
    from noisyir.training.full_size import constant_rng, retriever_learners

    def corrected(encoder: Any, pairs: Any) -> NoisyPairCorrection:
        return NoisyPairCorrection(encoder, pairs, params, constant_rng).correct()

    return retriever_learners(params, start, corrected)


TRAIN_NPC = Stage(
    name="train_npc",
    stream="npc",
    version=6,
    params=TrainNpcParams,
    reads=TRAINING_READS,
    writes={"model": MODEL, "curves": CURVES, "pair_scores": PAIR_SCORES, "noise_flags": NOISE_FLAGS},
    run=train_npc,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
    story=_story,
    learners=full_correction,
)
