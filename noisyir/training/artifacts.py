"""Mined negatives, models, and how training went."""

from noisyir.base.artifact import BOOL, F32, F64, I32, PAIR, PAIR_KEY, STRING, Artifact
from noisyir.data.artifacts import PAIRS

# `weight`: the document's chance of being its query's first draw, by the sampler's own weights.
NEGATIVES = Artifact("negatives", 1, {**PAIR, "weight": F32, "draw": I32}, PAIR_KEY)
# A teacher's scores of a query's documents; the greater, the likelier relevant.  Those of one query may be compared,
# in the teacher's own unit: logits of a cross-encoder, BM25's scores, inner products; a sum of scaled scores lies from
# 0 to 1.  `fold`: the part of the queries that the scoring model was trained without; -1 where none was trained.
TEACHER_SCORES = Artifact("teacher_scores", 1, {**PAIR, "score": F32, "teacher": STRING, "fold": I32}, PAIR_KEY)
AR2_STATE = Artifact("ar2_state", 1)  # both optimisers and their step counts, for the next round
CURVES = Artifact("curves", 1, {"name": STRING, "step": I32, "epoch": F64, "value": F64}, ("name", "step"))
# Pairs of training queries that are held out where the data has no dev split; no rows where it has one.
TRIAL = Artifact("trial", 1, PAIR, PAIR_KEY)
# p_clean: null where nothing warrants a chance; no pair is flagged then.
NOISE_FLAGS = Artifact(
    "noise_flags",
    2,
    {**PAIR, "epoch": I32, "score": F32, "p_clean": F32, "is_clean": BOOL, "replacement": STRING},
    (*PAIR_KEY, "epoch"),
    nullable=("p_clean", "replacement"),
)
REPAIRED_PAIRS = Artifact("repaired_pairs", 1, {**PAIR, "split": STRING, "action": STRING}, PAIR_KEY)
REPAIRED_FLAGS = Artifact("repaired_flags", 2, NOISE_FLAGS.columns, NOISE_FLAGS.key, nullable=NOISE_FLAGS.nullable)
# All pairs given, and those that a cross-encoder made: `score` is its probability that the document is relevant.
PSEUDO_PAIRS = Artifact("pseudo_pairs", 1, {**PAIRS.columns, "score": F32}, PAIR_KEY, nullable=("source", "score"))
