"""Every artifact: its columns, key and version.  Stages speak to each other in these tables and in nothing else.

Ids are strings.  `doc_row` is the only positional id: dense, given once by ingest, equal to the FAISS id.
Names are those of ir-measures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.errors import SchemaError


@dataclass(frozen=True)
class Artifact:
    """A table's contract, or, without columns, a folder of files (an index, a model, a report)."""

    name: str
    version: int
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether the artifact is Parquet; otherwise it is a folder whose files its stage names."""
        return bool(self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema that every part of the table has."""
        return pa.schema([pa.field(name, kind, name in self.nullable) for name, kind in self.columns.items()])

    def __getitem__(self, columns: str | tuple[str, ...]) -> "Read":
        """Read only these columns: `CORPUS["doc_id", "text"]`."""
        names = (columns,) if isinstance(columns, str) else columns
        if unknown := [name for name in names if name not in self.columns]:
            raise SchemaError(f"{self.name} v{self.version} has no column {unknown}; it has {list(self.columns)}")
        return Read(self, names)

    def all(self) -> "Read":
        """Read every column, or the whole folder."""
        return Read(self, tuple(self.columns))


@dataclass(frozen=True)
class Read:
    """What a stage reads of an artifact: these columns; perhaps not at all; perhaps of several producers."""

    artifact: Artifact
    columns: tuple[str, ...]
    optional: bool = False
    many: bool = False

    def or_none(self) -> "Read":
        """The stage also works without this input: a method that can be switched off."""
        return replace(self, optional=True)

    def each(self) -> "Read":
        """The stage takes any number of these, each under a label of the pipeline's choice."""
        return replace(self, many=True)


def check_columns(artifact: Artifact, found: Sequence[str], writer: str) -> None:
    """Refuse a table that lacks a column; `writer` is the stage that a remedy should name."""
    if missing := [name for name in artifact.columns if name not in found]:
        raise SchemaError(
            f"{artifact.name} v{artifact.version} lacks {missing}; found {list(found)}. "
            f"Rebuild it: noisyir run EXPERIMENT --refresh {writer}"
        )


def check_key(artifact: Artifact, table: pa.Table) -> None:
    """Refuse a table in which two rows have the same key; the message shows one such key."""
    if not artifact.key or table.num_rows < 2:
        return
    counts = table.group_by(list(artifact.key)).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    if repeated.num_rows:
        example = {name: repeated[name][0].as_py() for name in artifact.key}
        raise SchemaError(f"{artifact.name}: {repeated.num_rows} keys occur more than once, for example {example}")


_STRING, _I32, _F32, _F64, _BOOL = pa.string(), pa.int32(), pa.float32(), pa.float64(), pa.bool_()
_PAIR = {"query_id": _STRING, "doc_id": _STRING}
_PAIR_KEY = ("query_id", "doc_id")
_RUN = {**_PAIR, "rank": _I32, "score": _F32}

CORPUS = Artifact("corpus", 1, {"doc_id": _STRING, "doc_row": _I32, "title": _STRING, "text": _STRING}, ("doc_id",))
QUERIES = Artifact("queries", 1, {"query_id": _STRING, "text": _STRING, "split": _STRING}, ("query_id",))
ANSWERS = Artifact("answers", 1, {"query_id": _STRING, "aliases": pa.list_(_STRING)}, ("query_id",))
# `source`: where a pair came from (a package, an article, a log), for rates by source; null where the data does not say
PAIRS = Artifact("pairs", 2, {**_PAIR, "split": _STRING, "source": _STRING}, _PAIR_KEY, nullable=("source",))
QRELS = Artifact("qrels", 1, {**_PAIR, "relevance": _I32}, _PAIR_KEY)
EXCLUDED = Artifact("excluded", 1, {"reason": _STRING, "kind": _STRING, "id": _STRING}, ())

NOISY_PAIRS = Artifact("noisy_pairs", 2, PAIRS.columns, _PAIR_KEY, nullable=("source",))
CLEAN_PAIRS = Artifact("clean_pairs", 1, PAIRS.columns, _PAIR_KEY, nullable=("source",))  # the oracle's
NOISE_TRUTH = Artifact("noise_truth", 1, {**_PAIR, "kind": _STRING, "is_noisy": _BOOL}, _PAIR_KEY)

# How suspect each training pair is.  `score`: the higher, the likelier the pair is wrong, in the detector's own unit
# (pair_nll: nats); `null_score`, `near_score`: the same detector's score of the same query with a document drawn at
# random, and with a near neighbour of the pair's own;
# `epoch`: epochs of training that the scoring model had seen; `best_other`: the document it would pair instead.
PAIR_SCORES = Artifact(
    "pair_scores",
    1,
    {**_PAIR, "epoch": _I32, "score": _F32, "null_score": _F32, "near_score": _F32, "best_other": _STRING},
    (*_PAIR_KEY, "epoch"),
    nullable=("near_score", "best_other"),
)
# What the scoring model would find instead, for detectors that search the collection; no rows for the others.
# `similarity` and `rank` are the pair's own; `rivals` are other documents, best first, known duplicates left out.
RIVALS = Artifact(
    "rivals",
    1,
    {
        **_PAIR,
        "similarity": _F32,
        "rank": _I32,
        "rivals": pa.list_(_STRING),
        "rival_similarities": pa.list_(pa.float32()),
    },
    _PAIR_KEY,
    nullable=("rank",),  # null: deeper than the search went
)
NOISE_FLAGS = Artifact(
    "noise_flags",
    1,
    {**_PAIR, "epoch": _I32, "score": _F32, "p_clean": _F32, "is_clean": _BOOL, "replacement": _STRING},
    (*_PAIR_KEY, "epoch"),
    nullable=("replacement",),
)
# rate, rate_low, rate_high (the share of wrong pairs and its interval), flagged, threshold, and the fitted mixture's
# clean_weight, clean_mean, clean_std, noisy_weight, noisy_mean, noisy_std, in the unit of `score`, where there is one.
NOISE_ESTIMATE = Artifact("noise_estimate", 1, {"epoch": _I32, "name": _STRING, "value": _F64}, ("epoch", "name"))
DETECTION = Artifact(
    "detection",
    1,
    {"system": _STRING, "epoch": _I32, "measure": _STRING, "value": _F64},
    ("system", "epoch", "measure"),
)
REPAIRED_PAIRS = Artifact("repaired_pairs", 1, {**_PAIR, "split": _STRING, "action": _STRING}, _PAIR_KEY)
REPAIRED_FLAGS = Artifact("repaired_flags", 1, NOISE_FLAGS.columns, NOISE_FLAGS.key, nullable=("replacement",))

# Relevant documents that no pair names any more, or ever did: the truth, which only scoring may read.
# `kind`: positives or near_duplicates; `edit_rate`: of a near-duplicate, the share of its words that were edited.
HIDDEN = Artifact("hidden", 1, {**_PAIR, "kind": _STRING, "edit_rate": _F32}, _PAIR_KEY, nullable=("edit_rate",))

LEXICAL_INDEX = Artifact("lexical_index", 1)
BM25_RUN = Artifact("bm25_run", 1, _RUN, _PAIR_KEY)
DENSE_RUN = Artifact("dense_run", 1, _RUN, _PAIR_KEY)
RANDOM_RUN = Artifact("random_run", 1, _RUN, _PAIR_KEY)
RERANKED_RUN = Artifact("reranked_run", 1, _RUN, _PAIR_KEY)
# Documents that may become a query's negatives.  Scores are inner products of one model's vectors, and null where it
# gave none: `score` of query and candidate, `positive_score` of query and `positive`, `positive_similarity` of
# `positive` and candidate; the norms are those of query, positive and candidate.
CANDIDATES = Artifact(
    "candidates",
    1,
    {
        **_PAIR,
        "rank": _I32,
        "positive": _STRING,
        "score": _F32,
        "positive_score": _F32,
        "positive_similarity": _F32,
        "query_norm": _F32,
        "positive_norm": _F32,
        "norm": _F32,
    },
    _PAIR_KEY,
    nullable=(
        "positive",
        "score",
        "positive_score",
        "positive_similarity",
        "query_norm",
        "positive_norm",
        "norm",
    ),
)
# What a judge says of candidates; those it was not shown have no row.  `score`: the higher, the likelier the candidate
# is relevant, in the judge's own unit (sieve: cosine; cross_encoder: probability); `bound`: what is above it goes
# (sieve: the mean of the query's pool).
VERDICTS = Artifact("verdicts", 1, {**_PAIR, "score": _F32, "bound": _F32, "keep": _BOOL, "reason": _STRING}, _PAIR_KEY)
# `weight`: the document's chance of being its query's first draw, by the sampler's own weights.
NEGATIVES = Artifact("negatives", 1, {**_PAIR, "weight": _F32, "draw": _I32}, _PAIR_KEY)
# How many false negatives: of `mined` negatives, and of those that a filter or judge, `system`, lets through.
MINING_QUALITY = Artifact(
    "mining_quality", 1, {"system": _STRING, "measure": _STRING, "value": _F64}, ("system", "measure")
)
# -log f(passage, query) by group: positive, false (hidden positives among the candidates), hard (the others), in_batch.
# `measure`: share (of the group, from `low` to below `high`), count, mean, q05, q25, q50, q75, q95, and, of the false
# negatives, auroc: the chance that one's loss lies below that of a hard one.
LOSS_GROUPS = Artifact(
    "loss_groups",
    1,
    {"group": _STRING, "measure": _STRING, "low": _F64, "high": _F64, "value": _F64},
    ("group", "measure", "low"),
    nullable=("low", "high"),  # of all measures but share
)

MODEL = Artifact("model", 1)
RANKER = Artifact("ranker", 1)  # a sequence classifier of one label as Hugging Face saves it, and ranker.json
AR2_STATE = Artifact("ar2_state", 1)  # both optimisers and their step counts, for the next round
CURVES = Artifact("curves", 1, {"name": _STRING, "step": _I32, "epoch": _F64, "value": _F64}, ("name", "step"))
DOC_VECTORS = Artifact("doc_vectors", 1, {"doc_row": _I32, "vector": pa.list_(pa.float32())}, ("doc_row",))
QUERY_VECTORS = Artifact("query_vectors", 1, {"query_id": _STRING, "vector": pa.list_(pa.float32())}, ("query_id",))
INDEX = Artifact("index", 1)

METRICS = Artifact(
    "metrics",
    1,
    {"measure": _STRING, "split": _STRING, "query_id": _STRING, "value": _F64},
    ("measure", "split", "query_id"),
    nullable=("query_id",),  # null marks the mean over the split's queries
)
TREC = Artifact("trec", 1)  # {split}.run and {split}.qrels: what was scored, as trec_eval reads it
COMPARISON = Artifact(
    "comparison",
    1,
    {
        "system": _STRING,
        "measure": _STRING,
        "split": _STRING,
        "queries": _I32,
        "mean": _F64,
        "low": _F64,
        "high": _F64,
        "baseline": _STRING,
        "difference": _F64,
        "difference_low": _F64,
        "difference_high": _F64,
        "p_value": _F64,
        "p_holm": _F64,
        "wins": _I32,
        "losses": _I32,
    },
    ("system", "measure", "split", "baseline"),
    nullable=("baseline", "difference", "difference_low", "difference_high", "p_value", "p_holm", "wins", "losses"),
)
# The noise bench.  `method`: what was trained; `rate`: the share of training pairs that were made wrong by `mechanism`.
# The values' key is not checked again: labels tell the runs apart, and METRICS has each query once.
_CELL = {"mechanism": _STRING, "rate": _F64, "method": _STRING}
BENCH_VALUES = Artifact(
    "bench_values",
    1,
    {**_CELL, "seed": _I32, "measure": _STRING, "split": _STRING, "query_id": _STRING, "value": _F64},
)
# One row a comparison.  `mean`, `low`, `high`: over queries, of each query's mean over seeds; `seed_std`: of the seeds'
# means; `seeds_better`: in how many seeds the method's mean is above that of the one it is compared with.
BENCH_SUMMARY = Artifact(
    "bench_summary",
    1,
    {
        **_CELL,
        "measure": _STRING,
        "split": _STRING,
        "seeds": _I32,
        "queries": _I32,
        "mean": _F64,
        "seed_std": _F64,
        "low": _F64,
        "high": _F64,
        "against": _STRING,
        "difference": _F64,
        "difference_seed_std": _F64,
        "difference_low": _F64,
        "difference_high": _F64,
        "p_value": _F64,
        "p_holm": _F64,
        "seeds_better": _I32,
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
AUDIT = Artifact(
    "audit",
    1,
    {
        **_PAIR,
        "source": _STRING,
        "query": _STRING,
        "document": _STRING,
        "verdict": _STRING,  # clean, wrong
        "p_clean": _F32,
        "score": _F32,
        "rank": _I32,
        "similarity": _F32,
        "better": pa.list_(_STRING),
        "better_similarities": pa.list_(pa.float32()),
        "replacement": _STRING,
        "duplicates": _I32,  # other documents with the same words
        "reason": _STRING,
    },
    _PAIR_KEY,
    nullable=("source", "rank", "similarity", "replacement"),
)
# Candidates for negatives that at least one judge does not keep, the likeliest relevant first.
AUDIT_NEGATIVES = Artifact(
    "audit_negatives",
    1,
    {
        **_PAIR,
        "query": _STRING,
        "document": _STRING,
        "positive": _STRING,
        "rank": _I32,
        "score": _F32,
        "positive_score": _F32,
        "positive_similarity": _F32,  # cosine
        "overlap": _F32,  # of the words of document and positive, the share that both have
        "judges": pa.list_(_STRING),  # those that do not keep it, and what they go by
        "judge_scores": pa.list_(pa.float32()),
        "judge_bounds": pa.list_(pa.float32()),
        "kept_by": pa.list_(_STRING),
        "confidence": _F32,  # share of the judges' verdicts that lie less far above their bound, their mean
        "used": _BOOL,  # whether it was drawn as a negative
        "reason": _STRING,
    },
    _PAIR_KEY,
    nullable=("positive", "score", "positive_score", "positive_similarity", "overlap", "used"),
)
# How many candidates each judge saw, how many of them it does not keep, and how many of these were drawn as negatives.
AUDIT_JUDGES = Artifact(
    "audit_judges",
    1,
    {"judge": _STRING, "judged": _I32, "against": _I32, "used": _I32},
    ("judge",),
    nullable=("judge", "used"),  # null stands for at least one of the judges
)
# audit.html, audit.csv, sample.csv, negatives.csv, extra_positives.jsonl
AUDIT_FILES = Artifact("audit_files", 1)
