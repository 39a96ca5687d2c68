"""score_negatives: the share of false negatives, and the quality of filters and judges."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.data.artifacts import HIDDEN, QRELS
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join, with_values
from noisyir.evaluation.artifacts import MINING_QUALITY
from noisyir.evaluation.settings import ScoreNegativesParams
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.training.artifacts import NEGATIVES

_SCORES = ("score", "positive_score", "positive_similarity", "query_norm", "positive_norm", "norm")
Quality = dict[str, float]


def score_negatives(job: Job[ScoreNegativesParams]) -> None:
    """Measure candidates, mined negatives, each filter's signal and each judge's verdicts."""
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
    """The relevant pairs, and the pairs with a known truth (None: all)."""
    qrels = job.table("qrels")
    relevant = [qrels.filter(pc.greater_equal(qrels["relevance"], job.params.min_relevance or 1)).select(PAIR_KEY)]
    judged = [qrels.select(PAIR_KEY)]
    if job.has("hidden"):
        relevant.append(job.table("hidden"))
        judged.append(job.table("hidden"))
    known = pa.concat_tables(judged) if job.params.unjudged == "unknown" else None
    return pa.concat_tables(relevant), known


def _with_truth(pairs: pa.Table, relevant: pa.Table, known: pa.Table | None) -> pa.Table:
    """The pairs with `relevant`, `known` and `query`, the query's number in the order of the ids."""
    knows = np.ones(len(pairs), bool) if known is None else semi_join(pairs, known)
    query = pc.rank(pairs["query_id"], tiebreaker="dense").to_numpy().astype(np.int64) - 1
    is_relevant = pa.array(semi_join(pairs, relevant))
    return with_values(pairs, relevant=is_relevant, known=pa.array(knows), query=pa.array(query))


def _share(rows: pa.Table, name: str) -> Quality:
    """The share of relevant rows under this name; empty without rows."""
    return {name: float(rows["relevant"].to_numpy().mean())} if len(rows) else {}


def _filters(candidates: pa.Table) -> dict[str, Quality]:
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
    """A judge's quality on the candidates that it judged."""
    from noisyir.evaluation.negatives import ranking_quality, verdict_quality

    shown = verdicts.join(candidates.select([*PAIR_KEY, "relevant", "known", "query"]), PAIR_KEY, join_type="inner")
    if len(verdicts) and not len(shown):
        raise DataError(
            "evaluation.no_verdict_on_candidates",
            verdicts=len(verdicts),
            judge=judge,
            candidates=len(candidates),
            example=verdicts.select(PAIR_KEY).slice(0, 1).to_pylist()[0],
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
