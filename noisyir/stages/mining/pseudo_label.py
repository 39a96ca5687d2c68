"""pseudo_label: further training pairs, of queries and the candidates that a ranker is sure are relevant to them.

Source: RocketQA's data augmentation (Qu et al., NAACL 2021, arXiv:2010.08191); what is below its lower bound becomes a
negative when negatives are mined for these pairs.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.engine.story import told
from noisyir.engine.tables import semi_join
from noisyir.mining.settings import PseudoLabelParams
from noisyir.schemas.data import NOISY_PAIRS, QUERIES
from noisyir.schemas.noise import PSEUDO_PAIRS
from noisyir.schemas.training import VERDICTS

_BEST_FIRST = [("query_id", "ascending"), ("score", "descending"), ("doc_id", "ascending")]


def pseudo_label(job: Job[PseudoLabelParams]) -> None:
    """Write all pairs given, then those made, by query and probability.

    Only training queries get any, and none of them that reads like a dev or test query: its pairs would teach what is
    asked there.
    """
    params, pairs, verdicts = job.params, job.table("pairs"), job.table("verdicts")
    asked = _may_be_paired(job.table("queries"))
    may = pc.and_(
        pc.greater(verdicts["score"], pa.scalar(params.min_positive, pa.float32())),
        pc.is_in(verdicts["query_id"], value_set=asked),
    )
    sure = verdicts.filter(may)
    sure = sure.filter(pa.array(~semi_join(sure, pairs))).sort_by(_BEST_FIRST).combine_chunks()
    made = sure.filter(pa.array(_place(sure["query_id"]) < (params.per_query or len(sure))))
    job.write("pseudo_pairs", pa.concat_tables([_columns(pairs, None), _columns(made, "train")]))
    count = {name: pc.count_distinct(found["query_id"]).as_py() for name, found in (("of", verdicts), ("to", made))}
    job.note("pseudo_pairs", {"made": len(made), "queries_judged": count["of"], "queries_paired": count["to"]})


def _may_be_paired(queries: pa.Table) -> pa.ChunkedArray:
    training = pc.equal(queries["split"], "train")
    held_out = queries.filter(pc.invert(training))["text"]
    return queries.filter(pc.and_(training, pc.invert(pc.is_in(queries["text"], value_set=held_out))))["query_id"]


def _place(query_id: pa.ChunkedArray) -> np.ndarray:
    """The place, from 0, of each row among those of its query, which lie together."""
    rows = np.arange(len(query_id))
    starts = np.r_[True, pc.not_equal(query_id[1:], query_id[:-1]).to_numpy()][: len(rows)]
    return rows - np.maximum.accumulate(np.where(starts, rows, 0))


def _columns(pairs: pa.Table, split: str | None) -> pa.Table:
    """The pairs in the artifact's columns; `split` is that of pairs made, None: they are given."""
    if split is not None:
        pairs = pairs.append_column("split", pa.array([split] * len(pairs), pa.string()))
    for name, kind in PSEUDO_PAIRS.columns.items():
        if name not in pairs.column_names:
            pairs = pairs.append_column(name, pa.nulls(len(pairs), kind))
    return pairs.select(list(PSEUDO_PAIRS.columns)).cast(PSEUDO_PAIRS.schema)


PSEUDO_LABEL = Stage(
    name="pseudo_label",
    version=1,
    params=PseudoLabelParams,
    reads={
        "verdicts": VERDICTS["query_id", "doc_id", "score"],
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split", "source"],
        "queries": QUERIES["query_id", "text", "split"],
    },
    writes={"pseudo_pairs": PSEUDO_PAIRS},
    run=pseudo_label,
    story=partial(told, "pseudo_pairs", "Pseudo-labels: {made:,} pairs were added."),
)
