"""Audits of negatives, and the files of an audit."""

from noisyir.base.artifact import BOOL, F32, FLOATS, I32, PAIR, PAIR_KEY, STRING, STRINGS, Artifact

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
        "overlap": F32,  # shared part of the words of document and positive
        "judges": STRINGS,  # judges that drop it, with score and bound
        "judge_scores": FLOATS,
        "judge_bounds": FLOATS,
        "kept_by": STRINGS,
        "confidence": F32,  # mean share of each judge's verdicts with a smaller margin
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
