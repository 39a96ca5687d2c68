"""score_loss_groups: the losses of false, hard and in-batch negatives under one model."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR, PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, HIDDEN, NOISY_PAIRS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.evaluation.artifacts import LOSS_GROUPS
from noisyir.evaluation.settings import ScoreLossGroupsParams
from noisyir.mining.artifacts import CANDIDATES
from noisyir.models.artifacts import MODEL

if TYPE_CHECKING:
    from noisyir.evaluation.loss_groups import Losses

_GROUPS = ("positive", "false", "hard", "in_batch")
_PASSAGES_AT_ONCE = 16384


def score_loss_groups(job: Job[ScoreLossGroupsParams]) -> None:
    """Describe the losses in pools of a query's own passage, its candidates, and passages of other queries."""
    from noisyir.evaluation.loss_groups import describe

    pools = _pools(job)
    losses, group = _losses(job, pools), np.asarray(pools["group"])
    rows = describe({name: losses[group == name] for name in _GROUPS})
    job.write("loss_groups", pa.Table.from_pylist(rows, schema=LOSS_GROUPS.schema))
    job.note("queries", pc.count_distinct(pools["query_id"]).as_py())


def _pools(job: Job[ScoreLossGroupsParams]) -> pa.Table:
    """The pools of the chosen queries, in the order of the ids: (query_id, doc_id, group)."""
    pairs = job.table("pairs")
    pairs = pairs.filter(pc.equal(pairs["split"], "train")).select(PAIR_KEY)
    asked = _asked(job, pairs)
    own, candidates = (
        table.filter(pc.is_in(table["query_id"], value_set=asked)) for table in (pairs, job.table("candidates"))
    )
    hidden = job.table("hidden") if job.has("hidden") else HIDDEN.schema.empty_table().select(PAIR_KEY)
    positive = own.group_by("query_id").aggregate([("doc_id", "min")]).rename_columns(PAIR_KEY)
    candidates = candidates.join(own, PAIR_KEY, join_type="left anti")
    others = _others(job, asked, pairs)
    for known in (own, candidates, hidden):
        others = others.join(known, PAIR_KEY, join_type="left anti")
    groups = {
        "positive": positive,
        "false": candidates.join(hidden, PAIR_KEY, join_type="left semi"),
        "hard": candidates.join(hidden, PAIR_KEY, join_type="left anti"),
        "in_batch": others,
    }
    named = [table.append_column("group", pa.repeat(name, len(table))) for name, table in groups.items()]
    return pa.concat_tables(named, promote_options="default").sort_by(BY_PAIR)


def _asked(job: Job[ScoreLossGroupsParams], pairs: pa.Table) -> pa.Array:
    """The drawn queries, which have a pair and candidates, by rising id."""
    candidates = job.table("candidates")["query_id"].unique()
    asked = pairs["query_id"].unique()
    asked = asked.filter(pc.is_in(asked, value_set=candidates)).sort()
    if not len(asked):
        raise DataError("evaluation.no_candidate_with_pair", queries=len(candidates))
    if len(asked) <= job.params.queries:
        return asked
    chosen = job.rng("queries").choice(len(asked), job.params.queries, replace=False)
    return asked.take(pa.array(np.sort(chosen)))


def _others(job: Job[ScoreLossGroupsParams], asked: pa.Array, pairs: pa.Table) -> pa.Table:
    """Passages drawn from all pairs for each query, perhaps including its own."""
    passages, rng = pairs["doc_id"].unique().sort(), job.rng("in_batch")
    count = min(job.params.in_batch, len(passages))
    drawn = [rng.choice(len(passages), count, replace=False) for _ in range(len(asked))]
    query = np.repeat(np.arange(len(asked)), count)
    return pa.table({"query_id": asked.take(pa.array(query)), "doc_id": passages.take(pa.array(np.concatenate(drawn)))})


def _losses(job: Job[ScoreLossGroupsParams], pools: pa.Table) -> "Losses":
    """The loss of every passage of the pools, by the scaled similarities of the model's vectors."""
    import torch

    from noisyir.evaluation.loss_groups import pool_losses
    from noisyir.mining.candidates import dot_rows
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.training.examples import Numbering, read_documents
    from noisyir.training.validation import embed_all

    torch.set_num_threads(job.runtime.cpu_threads)
    encoder, queries = load_bi_encoder(job.folder("model"), job.runtime.device), job.table("queries")
    queries = queries.filter(pc.is_in(queries["query_id"], value_set=pools["query_id"].unique()))
    documents = read_documents(encoder, job.batches("corpus"), pools["doc_id"].unique())
    asked = Numbering(queries["query_id"].combine_chunks(), "queries")
    texts = encoder.tokenize(queries["text"].to_pylist(), "query")
    query_vectors = embed_all(encoder, texts, "query").cpu().numpy()
    vectors = embed_all(encoder, documents.tokens, "passage").cpu().numpy()
    query, passage = asked.rows(pools["query_id"]), documents.numbering.rows(pools["doc_id"])
    scores = job.params.scale * dot_rows(query_vectors, query, vectors, passage, _PASSAGES_AT_ONCE).astype(np.float64)
    return pool_losses(scores, query)


SCORE_LOSS_GROUPS = Stage(
    name="score_loss_groups",
    version=1,
    params=ScoreLossGroupsParams,
    reads={
        "model": MODEL.all(),
        "candidates": CANDIDATES["query_id", "doc_id"],
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "title", "text"],
        "hidden": HIDDEN["query_id", "doc_id"].or_none(),
    },
    writes={"loss_groups": LOSS_GROUPS},
    run=score_loss_groups,
    seeded=True,
    pool="gpu",
)
