"""Measures, comparisons, benches and pages."""

from noisyir.base.artifact import BOOL, F64, I32, STRING, Artifact

_METRIC = {"measure": STRING, "split": STRING, "query_id": STRING}
# `group`: the same for queries that share a document, which are one draw of chance; a null `query_id` marks the mean
# over the split's queries, which has no group
METRICS = Artifact(
    "metrics", 2, {**_METRIC, "group": STRING, "value": F64}, tuple(_METRIC), nullable=("query_id", "group")
)
# One measure of each system that may be recommended, on the split that it is told by, and on dev, which chooses it.
_STANDING = ("system", "split", "query_id")
STANDINGS = Artifact(
    "standings", 1, {**dict.fromkeys((*_STANDING[:2], "measure", "query_id", "group"), STRING), "value": F64}, _STANDING
)
TREC = Artifact("trec", 1)  # {split}.run and {split}.qrels: what was scored, as trec_eval reads it
_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_value", "p_holm")
COMPARISON = Artifact(
    "comparison",
    1,
    {
        **dict.fromkeys(("system", "measure", "split"), STRING),
        "queries": I32,
        **dict.fromkeys(("mean", "low", "high"), F64),
        "baseline": STRING,
        **dict.fromkeys(_DIFFERENCE, F64),
        **dict.fromkeys(("wins", "losses"), I32),
    },
    ("system", "measure", "split", "baseline"),
    nullable=("baseline", *_DIFFERENCE, "wins", "losses"),
)
# The noise bench.  `method`: what was trained; `rate`: the share of training pairs that were made wrong by `mechanism`.
# The values' key is not checked again: labels tell the runs apart, and METRICS has each query once.
_CELL = {"mechanism": STRING, "rate": F64, "method": STRING}
BENCH_VALUES = Artifact("bench_values", 2, {**_CELL, "seed": I32, **_METRIC, "group": STRING, "value": F64})
# One row a comparison.  `low`, `high`: over queries and seeds; `seed_std`: of the seeds' means;
# `seeds_better`: in how many seeds the method's mean is above that of the one it is compared with.
_SEEDS_DIFFERENCE = ("difference", "difference_seed_std", *_DIFFERENCE[1:])
BENCH_SUMMARY = Artifact(
    "bench_summary",
    1,
    {
        **_CELL,
        **dict.fromkeys(("measure", "split"), STRING),
        **dict.fromkeys(("seeds", "queries"), I32),
        **dict.fromkeys(("mean", "seed_std", "low", "high"), F64),
        "against": STRING,
        **dict.fromkeys(_SEEDS_DIFFERENCE, F64),
        "seeds_better": I32,
    },
    ("mechanism", "rate", "method", "measure", "split", "against"),
    # `seed_std` of one seed; the others in the baseline's own row
    nullable=("seed_std", "against", *_SEEDS_DIFFERENCE, "seeds_better"),
)
# Further sections of a report or bench page: `name` is the anchor; `html` stands as it is; `markdown` may be empty.
SECTIONS = Artifact("sections", 1, dict.fromkeys(("name", "heading", "html", "markdown"), STRING), ("name",))
BENCH_PAGE = Artifact("bench_page", 1)  # bench.html, bench.md
REPORT = Artifact("report", 1)
_MEASURED = {"system": STRING, "epoch": I32, "measure": STRING}
DETECTION = Artifact("detection", 1, {**_MEASURED, "value": F64}, tuple(_MEASURED))
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
