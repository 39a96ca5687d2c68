"""Artifacts of detectors and of audits: scores, flags, rates, and the rows that an owner sees."""

from noisyir.schemas.artifact import BOOL, F32, F64, FLOATS, I32, PAIR, PAIR_KEY, STRING, STRINGS, Artifact
from noisyir.schemas.data import PAIRS

# How suspect each training pair is.  `score`: the higher, the likelier the pair is wrong, in the detector's own unit
# (pair_nll: nats); `random_scores` and the like: the same detector's scores of the same query with documents drawn from
# a null (noise.null.Null), NaN where the pair has no such document, null where the detector drew none;
# `epoch`: epochs of training that the scoring model had seen; `best_other`: the document it would pair instead.
NULL_SCORES = ("random_scores", "near_scores", "lexical_scores", "source_scores")
PAIR_SCORES = Artifact(
    "pair_scores",
    2,
    {**PAIR, "epoch": I32, "score": F32, **dict.fromkeys(NULL_SCORES, FLOATS), "best_other": STRING},
    (*PAIR_KEY, "epoch"),
    nullable=(*NULL_SCORES, "best_other"),
)
# Each pair as numbers that judgements can be learnt from; their names are the build's note `features`.  No rows for
# detectors that make none.
PAIR_FEATURES = Artifact("pair_features", 1, {**PAIR, "features": FLOATS}, PAIR_KEY)
# What the scoring model would find instead, for detectors that search the collection; no rows for the others.
# `similarity` and `rank` are the pair's own; `competitors` are other documents, best first, known duplicates left out.
COMPETITORS = Artifact(
    "competitors",
    1,
    {**PAIR, "similarity": F32, "rank": I32, "competitors": STRINGS, "competitor_similarities": FLOATS},
    PAIR_KEY,
    nullable=("rank",),  # null: deeper than the search went
)
# p_clean: null where nothing warrants a chance; no pair is flagged then.
NOISE_FLAGS = Artifact(
    "noise_flags",
    2,
    {**PAIR, "epoch": I32, "score": F32, "p_clean": F32, "is_clean": BOOL, "replacement": STRING},
    (*PAIR_KEY, "epoch"),
    nullable=("p_clean", "replacement"),
)
# rate (the share of wrong pairs by the null that fits best), rate_low, rate_high (the range over all nulls), and of
# each null NULL.rate, .low, .high, .fit, .tail, .auroc (noise.rate.RateByNull); flagged, threshold, and the mixture's
# clean_weight, clean_mean, clean_std, noisy_weight, noisy_mean, noisy_std, in the unit of `score`, where there is one.
NOISE_ESTIMATE = Artifact("noise_estimate", 1, {"epoch": I32, "name": STRING, "value": F64}, ("epoch", "name"))
# Of the `kept` least suspect pairs at most the share `bound` is wrong, all bounds together with 90 % confidence, if
# wrong pairs are like made-up ones of the null that detect assumes; no rows where it assumes none.
KEPT_BY_NULL = Artifact("kept_by_null", 1, {"epoch": I32, "kept": I32, "bound": F64}, ("epoch", "kept"))
_MEASURED = {"system": STRING, "epoch": I32, "measure": STRING}
DETECTION = Artifact("detection", 1, {**_MEASURED, "value": F64}, tuple(_MEASURED))
REPAIRED_PAIRS = Artifact("repaired_pairs", 1, {**PAIR, "split": STRING, "action": STRING}, PAIR_KEY)
# All pairs given, and those that a cross-encoder made: `score` is its probability that the document is relevant.
PSEUDO_PAIRS = Artifact("pseudo_pairs", 1, {**PAIRS.columns, "score": F32}, PAIR_KEY, nullable=("source", "score"))
REPAIRED_FLAGS = Artifact("repaired_flags", 2, NOISE_FLAGS.columns, NOISE_FLAGS.key, nullable=NOISE_FLAGS.nullable)
GIVEN_WEIGHTS = Artifact("given_weights", 2, {**PAIR, "weight": F32}, PAIR_KEY)  # what the data itself gives its pairs
# Candidates for negatives that at least one judge does not keep, the likeliest relevant first.
AUDIT_NEGATIVES = Artifact(
    "audit_negatives",
    1,
    {
        **PAIR,
        "query": STRING,
        "document": STRING,
        "positive": STRING,
        "rank": I32,
        "score": F32,
        "positive_score": F32,
        "positive_similarity": F32,  # cosine
        "overlap": F32,  # of the words of document and positive, the share that both have
        "judges": STRINGS,  # those that do not keep it, and what they go by
        "judge_scores": FLOATS,
        "judge_bounds": FLOATS,
        "kept_by": STRINGS,
        "confidence": F32,  # share of the judges' verdicts that lie less far above their bound, their mean
        "used": BOOL,  # whether it was drawn as a negative
        "reason": STRING,
    },
    PAIR_KEY,
    nullable=("positive", "score", "positive_score", "positive_similarity", "overlap", "used"),
)
# How many candidates each judge saw, how many of them it does not keep, and how many of these were drawn as negatives.
AUDIT_JUDGES = Artifact(
    "audit_judges",
    1,
    {"judge": STRING, "judged": I32, "against": I32, "used": I32},
    ("judge",),
    nullable=("judge", "used"),  # null stands for at least one of the judges
)
# audit.html, audit.csv, sample.csv, negatives.csv, extra_positives.jsonl
AUDIT_FILES = Artifact("audit_files", 1)
