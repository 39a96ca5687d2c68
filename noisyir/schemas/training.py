"""Mined negatives, models, and how training went."""

from noisyir.schemas.artifact import BOOL, F32, F64, I32, PAIR, PAIR_KEY, STRING, Artifact

# Documents that may become a query's negatives.  Scores are inner products of one model's vectors, and null where it
# gave none: `score` of query and candidate, `positive_score` of query and `positive`, `positive_similarity` of
# `positive` and candidate; the norms are those of query, positive and candidate.
_BY_VECTORS = ("score", "positive_score", "positive_similarity", "query_norm", "positive_norm", "norm")
CANDIDATES = Artifact(
    "candidates",
    1,
    {**PAIR, "rank": I32, "positive": STRING, **dict.fromkeys(_BY_VECTORS, F32)},
    PAIR_KEY,
    nullable=("positive", *_BY_VECTORS),
)
# What a judge says of candidates; those it was not shown have no row.  `score`: the higher, the likelier the candidate
# is relevant, in the judge's own unit (sieve: cosine; cross_encoder, ranker: probability); `bound`: what is above it
# goes (sieve: the mean of the query's pool).
VERDICTS = Artifact("verdicts", 1, {**PAIR, "score": F32, "bound": F32, "keep": BOOL, "reason": STRING}, PAIR_KEY)
# `weight`: the document's chance of being its query's first draw, by the sampler's own weights.
NEGATIVES = Artifact("negatives", 1, {**PAIR, "weight": F32, "draw": I32}, PAIR_KEY)
# How many false negatives: of `mined` negatives, and of those that a filter or judge, `system`, lets through.
MINING_QUALITY = Artifact(
    "mining_quality", 1, {"system": STRING, "measure": STRING, "value": F64}, ("system", "measure")
)
# -log f(passage, query) by group: positive, false (hidden positives among the candidates), hard (the others), in_batch.
# `measure`: share (of the group, from `low` to below `high`), count, mean, q05, q25, q50, q75, q95, and, of the false
# negatives, auroc: the chance that one's loss lies below that of a hard one.
LOSS_GROUPS = Artifact(
    "loss_groups",
    1,
    {"group": STRING, "measure": STRING, "low": F64, "high": F64, "value": F64},
    ("group", "measure", "low"),
    nullable=("low", "high"),  # of all measures but share
)
# Documents that a teacher reads: hits of retrievers and the given ones, of training queries and, to measure it, of dev.
CANDIDATE_POOL = Artifact("candidate_pool", 1, {**PAIR, "split": STRING, "given": BOOL}, PAIR_KEY)
# A teacher's scores of a query's documents; the greater, the likelier relevant.  Those of one query may be compared,
# in the teacher's own unit: logits of a cross-encoder, BM25's scores, inner products; a sum of scaled scores lies from
# 0 to 1.  `fold`: the part of the queries that the scoring model was trained without; -1 where none was trained.
TEACHER_SCORES = Artifact("teacher_scores", 1, {**PAIR, "score": F32, "teacher": STRING, "fold": I32}, PAIR_KEY)
# Of each document of the pool, of training queries: the chance, `score`, that it is relevant, by scores and by whether
# it is given; `fold`: the part of the queries that the model was learnt without.
RELEVANCE = Artifact("relevance", 1, {**PAIR, "given": BOOL, "score": F32, "fold": I32}, PAIR_KEY)
MODEL = Artifact("model", 1)
RANKER = Artifact("ranker", 1)  # a sequence classifier of one label as Hugging Face saves it, and ranker.json
AR2_STATE = Artifact("ar2_state", 1)  # both optimisers and their step counts, for the next round
CURVES = Artifact("curves", 1, {"name": STRING, "step": I32, "epoch": F64, "value": F64}, ("name", "step"))
# Pairs of training queries that are held out where the data has no dev split; no rows where it has one.
TRIAL = Artifact("trial", 1, PAIR, PAIR_KEY)
# What `auto` tried: each method's mean reciprocal rank at 10 on held-out pairs over seeds, and, of all but plain
# training, its difference to that with interval and p-values; the one chosen is plain where nothing is significant.
_AGAINST_PLAIN = ("difference", "low", "high", "p_value", "p_holm")
TRIALS = Artifact(
    "trials",
    1,
    {"method": STRING, "seeds": I32, "queries": I32, **dict.fromkeys(("mean", *_AGAINST_PLAIN), F64), "chosen": BOOL},
    ("method",),
    nullable=_AGAINST_PLAIN,
)
