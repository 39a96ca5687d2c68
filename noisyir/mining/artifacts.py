"""Candidates for negatives, with the scores and verdicts of judges and teachers."""

from noisyir.base.artifact import BOOL, F32, FLOATS, I32, PAIR, PAIR_KEY, RUN, STRING, Artifact
from noisyir.data.artifacts import PAIRS

# The data's own negatives of training queries, in its order, and a ranking's documents behind them; `score` is 0
GIVEN_RUN = Artifact("given_run", 1, RUN, PAIR_KEY)
# The vector of each training query's positive, in place of its own.
POSITIVE_VECTORS = Artifact("positive_vectors", 1, {"query_id": STRING, "vector": FLOATS}, ("query_id",))
# Training queries and the documents that hold their answers; the pairs of held-out queries as they were.
EVIDENCE_PAIRS = Artifact("evidence_pairs", 1, PAIRS.columns, PAIR_KEY, nullable=PAIRS.nullable)
# Documents that may become a query's negatives. Scores are inner products of one model's vectors, null without
# vectors: `score` of query and candidate, `positive_score` of query and `positive`, `positive_similarity` of
# `positive` and candidate; the norms are those of query, positive and candidate.
_BY_VECTORS = ("score", "positive_score", "positive_similarity", "query_norm", "positive_norm", "norm")
CANDIDATES = Artifact(
    "candidates",
    1,
    {**PAIR, "rank": I32, "positive": STRING, **dict.fromkeys(_BY_VECTORS, F32)},
    PAIR_KEY,
    nullable=("positive", *_BY_VECTORS),
)
# A judge's verdicts on candidates; candidates it was not shown have no row. `score`: higher means more likely
# relevant, in the judge's own unit (sieve: cosine; cross_encoder, ranker: probability); `bound`: candidates above it
# are removed (sieve: the mean of the query's pool).
VERDICTS = Artifact("verdicts", 1, {**PAIR, "score": F32, "bound": F32, "keep": BOOL, "reason": STRING}, PAIR_KEY)
# Documents that a teacher reads: retrieved and given ones of training queries and, for evaluation, of dev queries.
CANDIDATE_POOL = Artifact("candidate_pool", 1, {**PAIR, "split": STRING, "given": BOOL}, PAIR_KEY)
