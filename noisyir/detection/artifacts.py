"""Artifacts of detectors: scores, features, competitors and estimates of noise."""

from noisyir.base.artifact import F32, F64, FLOATS, I32, PAIR, PAIR_KEY, STRING, STRINGS, Artifact

# How suspect each training pair is. `score`: higher means more likely wrong, in the detector's own unit (pair_nll:
# nats); `random_scores` etc.: the same detector's scores of the same query with documents drawn from a null
# (detection.settings.Null), NaN if the pair has no such document, null if the detector drew none; `epoch`: training
# epochs of the scoring model; `best_other`: the document it would pair instead.
NULL_SCORES = ("random_scores", "near_scores", "lexical_scores", "source_scores")
PAIR_SCORES = Artifact(
    "pair_scores",
    2,
    {**PAIR, "epoch": I32, "score": F32, **dict.fromkeys(NULL_SCORES, FLOATS), "best_other": STRING},
    (*PAIR_KEY, "epoch"),
    nullable=(*NULL_SCORES, "best_other"),
)
# Features of each pair for learning from judgements; their names are in the build's note `features`. No rows for
# detectors without features.
PAIR_FEATURES = Artifact("pair_features", 1, {**PAIR, "features": FLOATS}, PAIR_KEY)
# Documents that the scoring model finds instead, for detectors that search the collection; no rows for others.
# `similarity` and `rank` are the pair's own; `competitors` are other documents, best first, known duplicates left out.
COMPETITORS = Artifact(
    "competitors",
    1,
    {**PAIR, "similarity": F32, "rank": I32, "competitors": STRINGS, "competitor_similarities": FLOATS},
    PAIR_KEY,
    nullable=("rank",),  # null: below the search depth
)
# rate (share of wrong pairs under the best-fitting null), rate_low, rate_high (range over all nulls), and for each
# null NULL.rate, .low, .high, .fit, .tail, .auroc (detection.rate.RateByNull); flagged, threshold, and the mixture's
# clean_weight, clean_mean, clean_std, noisy_weight, noisy_mean, noisy_std, in the unit of `score`, if any.
NOISE_ESTIMATE = Artifact("noise_estimate", 1, {"epoch": I32, "name": STRING, "value": F64}, ("epoch", "name"))
# At most the share `bound` of the `kept` least suspect pairs is wrong, simultaneously with 90 % confidence, if wrong
# pairs are like made-up ones of the null that detect assumes; no rows if it assumes none.
KEPT_BY_NULL = Artifact("kept_by_null", 1, {"epoch": I32, "kept": I32, "bound": F64}, ("epoch", "kept"))
