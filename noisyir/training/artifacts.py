"""Artifacts of training: negatives, teachers' scores, flags and repaired pairs, and curves of the loss."""

from noisyir.base.artifact import BOOL, F32, F64, I32, PAIR, PAIR_KEY, STRING, Artifact
from noisyir.data.artifacts import PAIRS

# `weight`: the document's chance of being its query's first draw, by the sampler's own weights.
NEGATIVES = Artifact("negatives", 1, {**PAIR, "weight": F32, "draw": I32}, PAIR_KEY)
# A teacher's scores, comparable within a query in the teacher's own unit: logits, BM25's scores, inner products, scaled
# sums in 0..1.  `fold`: the part of the queries that the scoring model was not trained on; -1 if none was trained.
TEACHER_SCORES = Artifact("teacher_scores", 1, {**PAIR, "score": F32, "teacher": STRING, "fold": I32}, PAIR_KEY)
AR2_STATE = Artifact("ar2_state", 1)  # both optimisers and step counts, which the next round continues
CURVES = Artifact("curves", 1, {"name": STRING, "step": I32, "epoch": F64, "value": F64}, ("name", "step"))
# Pairs of held-out training queries; no rows if the data has a dev split.
TRIAL = Artifact("trial", 1, PAIR, PAIR_KEY)
# p_clean: null if nothing warrants a probability; no pair is flagged then.
NOISE_FLAGS = Artifact(
    "noise_flags",
    2,
    {**PAIR, "epoch": I32, "score": F32, "p_clean": F32, "is_clean": BOOL, "replacement": STRING},
    (*PAIR_KEY, "epoch"),
    nullable=("p_clean", "replacement"),
)
REPAIRED_PAIRS = Artifact("repaired_pairs", 1, {**PAIR, "split": STRING, "action": STRING}, PAIR_KEY)
REPAIRED_FLAGS = Artifact("repaired_flags", 2, NOISE_FLAGS.columns, NOISE_FLAGS.key, nullable=NOISE_FLAGS.nullable)
# The given pairs and a cross-encoder's; `score`: its probability that the document is relevant.
PSEUDO_PAIRS = Artifact("pseudo_pairs", 1, {**PAIRS.columns, "score": F32}, PAIR_KEY, nullable=("source", "score"))
