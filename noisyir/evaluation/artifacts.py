"""Measures, comparisons, benches and pages."""

from noisyir.base.artifact import BOOL, F64, I32, STRING, Artifact

_METRIC = {"measure": STRING, "split": STRING, "query_id": STRING}
# `group` is the same for queries of one document, which are one draw; a null `query_id` marks the split's mean
METRICS = Artifact(
    "metrics", 2, {**_METRIC, "group": STRING, "value": F64}, tuple(_METRIC), nullable=("query_id", "group")
)
# One measure of each system that may be recommended, on the reported split and on dev, which chooses
_STANDING = ("system", "split", "query_id")
STANDINGS = Artifact(
    "standings", 1, {**dict.fromkeys((*_STANDING[:2], "measure", "query_id", "group"), STRING), "value": F64}, _STANDING
)
TREC = Artifact("trec", 1)  # {split}.run and {split}.qrels, as trec_eval reads them
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
# The noise bench: `rate` is the share of training pairs that `mechanism` made wrong; its key is not checked again
_CELL = {"mechanism": STRING, "rate": F64, "method": STRING}
BENCH_VALUES = Artifact("bench_values", 2, {**_CELL, "seed": I32, **_METRIC, "group": STRING, "value": F64})
# One row a comparison: intervals over queries and seeds; `seeds_better` counts seeds with a greater mean than `against`
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
    # `seed_std` with one seed; the others in the baseline's own row
    nullable=("seed_std", "against", *_SEEDS_DIFFERENCE, "seeds_better"),
)
# Further sections of a report or bench page: `name` is the anchor; `html` is inserted as is; `markdown` may be empty.
SECTIONS = Artifact("sections", 1, dict.fromkeys(("name", "heading", "html", "markdown"), STRING), ("name",))
BENCH_PAGE = Artifact("bench_page", 1)  # bench.html, bench.md
REPORT = Artifact("report", 1)
_MEASURED = {"system": STRING, "epoch": I32, "measure": STRING}
DETECTION = Artifact("detection", 1, {**_MEASURED, "value": F64}, tuple(_MEASURED))
# Shares of false negatives among candidates and mined negatives, and the quality of each filter or judge (`system`)
MINING_QUALITY = Artifact(
    "mining_quality", 1, {"system": STRING, "measure": STRING, "value": F64}, ("system", "measure")
)
# -log f(passage, query) by group: positive, false (hidden positives among the candidates), hard (the others), in_batch.
# `measure`: share (of the losses from `low` to below `high`), count, mean, quantiles, and auroc of false against hard
LOSS_GROUPS = Artifact(
    "loss_groups",
    1,
    {"group": STRING, "measure": STRING, "low": F64, "high": F64, "value": F64},
    ("group", "measure", "low"),
    nullable=("low", "high"),  # but for share
)
# The trials of `auto`: each method's mean nDCG@10 on held-out queries over seeds, and its difference to plain training
_AGAINST_PLAIN = ("difference", "low", "high", "p_value", "p_holm")
TRIALS = Artifact(
    "trials",
    1,
    {"method": STRING, "seeds": I32, "queries": I32, **dict.fromkeys(("mean", *_AGAINST_PLAIN), F64), "chosen": BOOL},
    ("method",),
    nullable=_AGAINST_PLAIN,
)
