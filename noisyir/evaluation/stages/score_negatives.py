"""score_negatives: how many candidates and mined negatives are relevant in truth, and how well judges tell which."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, HIDDEN, NOISY_PAIRS, QRELS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join
from noisyir.evaluation.artifacts import LOSS_GROUPS, MINING_QUALITY
from noisyir.evaluation.settings import ScoreLossGroupsParams, ScoreNegativesParams
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.models.artifacts import MODEL
from noisyir.training.artifacts import NEGATIVES

if TYPE_CHECKING:
    from noisyir.evaluation.negatives import Losses


_PAIR = ["query_id", "doc_id"]
_SCORES = ("score", "positive_score", "positive_similarity", "query_norm", "positive_norm", "norm")
Quality = dict[str, float]


def score_negatives(job: Job[ScoreNegativesParams]) -> None:
    """Measure the candidates, what was drawn of them, and each filter's signal and each judge's verdicts on them."""
    relevant, known = _truth(job)
    candidates = _with_truth(job.table("candidates"), relevant, known)
    of_known = candidates.filter(candidates["known"])
    queries = pc.count_distinct(of_known["query"]).as_py()
    quality: dict[str, Quality] = {
        "candidates": {"count": len(of_known), "queries": queries, **_share(of_known, "relevant")}
    }
    if job.has("negatives"):
        drawn = _with_truth(job.table("negatives"), relevant, known)
        drawn = drawn.filter(drawn["known"])
        quality["mined"] = {"slots": len(drawn), **_share(drawn, "false_negative_rate")}
    quality |= _filters(of_known)
    for judge, verdicts in job.tables("verdicts").items():
        quality[judge] = _judge(judge, verdicts, candidates)
    job.note("negatives", {"candidates": len(candidates), "without_truth": len(candidates) - len(of_known)})
    job.write("mining_quality", _rows(quality))


def _truth(job: Job[ScoreNegativesParams]) -> tuple[pa.Table, pa.Table | None]:
    """The pairs that are relevant, and those of which that is known; None: of all."""
    qrels = job.table("qrels")
    relevant = [qrels.filter(pc.greater_equal(qrels["relevance"], job.params.min_relevance or 1)).select(_PAIR)]
    judged = [qrels.select(_PAIR)]
    if job.has("hidden"):
        relevant.append(job.table("hidden"))
        judged.append(job.table("hidden"))
    known = pa.concat_tables(judged) if job.params.unjudged == "unknown" else None
    return pa.concat_tables(relevant), known


def _with_truth(pairs: pa.Table, relevant: pa.Table, known: pa.Table | None) -> pa.Table:
    """The pairs with `relevant`, `known` and `query`, the query's number in the order of the ids."""
    knows = np.ones(len(pairs), bool) if known is None else semi_join(pairs, known)
    query = pc.rank(pairs["query_id"], tiebreaker="dense").to_numpy().astype(np.int64) - 1
    return (
        pairs.append_column("relevant", pa.array(semi_join(pairs, relevant)))
        .append_column("known", pa.array(knows))
        .append_column("query", pa.array(query))
    )


def _share(of: pa.Table, called: str) -> Quality:
    """The share of relevant rows, by the name it has; nothing where there are no rows."""
    return {called: float(of["relevant"].to_numpy().mean())} if len(of) else {}


def _filters(candidates: pa.Table) -> dict[str, Quality]:
    """Each filter by its name, on the candidates that have scores; nothing where none has."""
    from noisyir.evaluation.negatives import USUAL_MARGIN, ranking_quality, signals, usual_verdict, verdict_quality
    from noisyir.mining.candidates import Candidates

    scored = candidates.drop_null()
    if not len(scored):
        return {}
    relevant, query = scored["relevant"].to_numpy(), scored["query"].to_numpy()
    flat = Candidates(query, np.arange(len(query)), *(scored[name].to_numpy() for name in ("rank", *_SCORES)))
    quality = {name: ranking_quality(signal, relevant, query) for name, signal in signals(flat).items()}
    usual = usual_verdict(flat.score, flat.positive_score)
    quality[f"relative_margin_{USUAL_MARGIN:g}"] = verdict_quality(usual, relevant)
    return quality


def _judge(judge: str, verdicts: pa.Table, candidates: pa.Table) -> Quality:
    """A judge on the candidates that it was shown."""
    from noisyir.evaluation.negatives import ranking_quality, verdict_quality

    shown = verdicts.join(candidates.select([*_PAIR, "relevant", "known", "query"]), _PAIR, join_type="inner")
    if len(verdicts) and not len(shown):
        raise DataError(
            "evaluation.no_verdict_on_candidates",
            verdicts=len(verdicts),
            judge=judge,
            candidates=len(candidates),
            example=verdicts.select(_PAIR).slice(0, 1).to_pylist()[0],
        )
    shown = shown.filter(shown["known"])
    relevant, query = shown["relevant"].to_numpy(), shown["query"].to_numpy()
    label = shown["score"].to_numpy().astype(np.float64) - shown["bound"].to_numpy()
    return {**ranking_quality(label, relevant, query), **verdict_quality(shown["keep"].to_numpy(), relevant)}


def _rows(quality: Mapping[str, Quality]) -> pa.Table:
    rows = [
        {"system": system, "measure": measure, "value": value}
        for system, values in quality.items()
        for measure, value in values.items()
    ]
    return pa.Table.from_pylist(rows, schema=MINING_QUALITY.schema)


SCORE_NEGATIVES = Stage(
    name="score_negatives",
    version=1,
    params=ScoreNegativesParams,
    reads={
        "candidates": CANDIDATES["query_id", "doc_id", "rank", *_SCORES],
        "negatives": NEGATIVES["query_id", "doc_id"].or_none(),
        "verdicts": VERDICTS["query_id", "doc_id", "score", "bound", "keep"].each(),
        "hidden": HIDDEN["query_id", "doc_id"].or_none(),
        "qrels": QRELS.all(),
    },
    writes={"mining_quality": MINING_QUALITY},
    run=score_negatives,
    pool="driver",
)


_GROUP_PAIR = ["query_id", "doc_id"]
_GROUPS = ("positive", "false", "hard", "in_batch")
_PASSAGES_AT_ONCE = 16384


def score_loss_groups(job: Job[ScoreLossGroupsParams]) -> None:
    """Each query's pool is one of its own passages, its candidates, and passages of other queries."""
    from noisyir.evaluation.negatives import describe

    pools = _pools(job)
    losses, group = _losses(job, pools), np.asarray(pools["group"])
    rows = describe({name: losses[group == name] for name in _GROUPS})
    job.write("loss_groups", pa.Table.from_pylist(rows, schema=LOSS_GROUPS.schema))
    job.note("queries", pc.count_distinct(pools["query_id"]).as_py())


def _pools(job: Job[ScoreLossGroupsParams]) -> pa.Table:
    """The pools of the chosen queries, in the order of the ids: (query_id, doc_id, group)."""
    pairs = job.table("pairs")
    pairs = pairs.filter(pc.equal(pairs["split"], "train")).select(_GROUP_PAIR)
    asked = _asked(job, pairs)
    own, candidates = (
        table.filter(pc.is_in(table["query_id"], value_set=asked)) for table in (pairs, job.table("candidates"))
    )
    hidden = job.table("hidden") if job.has("hidden") else HIDDEN.schema.empty_table().select(_GROUP_PAIR)
    positive = own.group_by("query_id").aggregate([("doc_id", "min")]).rename_columns(_GROUP_PAIR)
    candidates = candidates.join(own, _GROUP_PAIR, join_type="left anti")
    others = _others(job, asked, pairs)
    for known in (own, candidates, hidden):
        others = others.join(known, _GROUP_PAIR, join_type="left anti")
    groups = {
        "positive": positive,
        "false": candidates.join(hidden, _GROUP_PAIR, join_type="left semi"),
        "hard": candidates.join(hidden, _GROUP_PAIR, join_type="left anti"),
        "in_batch": others,
    }
    named = [table.append_column("group", pa.repeat(name, len(table))) for name, table in groups.items()]
    return pa.concat_tables(named, promote_options="default").sort_by([(name, "ascending") for name in _GROUP_PAIR])


def _asked(job: Job[ScoreLossGroupsParams], pairs: pa.Table) -> pa.Array:
    """The queries to look at, drawn from those with both a pair and candidates, by rising id."""
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
    """For each query, passages drawn from all pairs', its own perhaps among them."""
    passages, rng = pairs["doc_id"].unique().sort(), job.rng("in_batch")
    count = min(job.params.in_batch, len(passages))
    drawn = [rng.choice(len(passages), count, replace=False) for _ in range(len(asked))]
    query = np.repeat(np.arange(len(asked)), count)
    return pa.table({"query_id": asked.take(pa.array(query)), "doc_id": passages.take(pa.array(np.concatenate(drawn)))})


def _losses(job: Job[ScoreLossGroupsParams], pools: pa.Table) -> "Losses":
    """The loss of every passage of the pools, by the scaled similarities of the model's vectors."""
    import torch

    from noisyir.evaluation.negatives import pool_losses
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
