"""Measures, comparisons, benches and pages."""

from noisyir.schemas.artifact import Artifact
from noisyir.schemas.columns import F64, I32, STRING

METRICS = Artifact(
    "metrics",
    1,
    {"measure": STRING, "split": STRING, "query_id": STRING, "value": F64},
    ("measure", "split", "query_id"),
    nullable=("query_id",),  # null marks the mean over the split's queries
)
TREC = Artifact("trec", 1)  # {split}.run and {split}.qrels: what was scored, as trec_eval reads it
COMPARISON = Artifact(
    "comparison",
    1,
    {
        "system": STRING,
        "measure": STRING,
        "split": STRING,
        "queries": I32,
        "mean": F64,
        "low": F64,
        "high": F64,
        "baseline": STRING,
        "difference": F64,
        "difference_low": F64,
        "difference_high": F64,
        "p_value": F64,
        "p_holm": F64,
        "wins": I32,
        "losses": I32,
    },
    ("system", "measure", "split", "baseline"),
    nullable=("baseline", "difference", "difference_low", "difference_high", "p_value", "p_holm", "wins", "losses"),
)
# The noise bench.  `method`: what was trained; `rate`: the share of training pairs that were made wrong by `mechanism`.
# The values' key is not checked again: labels tell the runs apart, and METRICS has each query once.
_CELL = {"mechanism": STRING, "rate": F64, "method": STRING}
BENCH_VALUES = Artifact(
    "bench_values",
    1,
    {**_CELL, "seed": I32, "measure": STRING, "split": STRING, "query_id": STRING, "value": F64},
)
# One row a comparison.  `mean`, `low`, `high`: over queries, of each query's mean over seeds; `seed_std`: of the seeds'
# means; `seeds_better`: in how many seeds the method's mean is above that of the one it is compared with.
BENCH_SUMMARY = Artifact(
    "bench_summary",
    1,
    {
        **_CELL,
        "measure": STRING,
        "split": STRING,
        "seeds": I32,
        "queries": I32,
        "mean": F64,
        "seed_std": F64,
        "low": F64,
        "high": F64,
        "against": STRING,
        "difference": F64,
        "difference_seed_std": F64,
        "difference_low": F64,
        "difference_high": F64,
        "p_value": F64,
        "p_holm": F64,
        "seeds_better": I32,
    },
    ("mechanism", "rate", "method", "measure", "split", "against"),
    nullable=(
        "seed_std",  # of one seed
        "against",  # in the baseline's own row
        "difference",
        "difference_seed_std",
        "difference_low",
        "difference_high",
        "p_value",
        "p_holm",
        "seeds_better",
    ),
)
BENCH_PAGE = Artifact("bench_page", 1)  # bench.html, bench.md
REPORT = Artifact("report", 1)
