"""estimate_relevance, posterior_judge: how likely each candidate is relevant; as verdict, as target, and in mining.

The equations are in detection.posterior, and docs/understand/posterior.md derives them.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.data.artifacts import NOISY_PAIRS, QRELS, QUERIES
from noisyir.detection.artifacts import NOISE_ESTIMATE
from noisyir.detection.posterior import (
    JudgedCandidates,
    LabelledCandidates,
    LabelModel,
    calibration_error,
    cross_fitted,
    evidence,
)
from noisyir.engine.stage import Job, Stage, told
from noisyir.engine.tables import aligned, semi_join
from noisyir.mining.artifacts import CANDIDATE_POOL, CANDIDATES, RELEVANCE, VERDICTS
from noisyir.mining.judges import PosteriorJudge
from noisyir.mining.settings import RelevanceParams
from noisyir.mining.stages.teacher_lists import numbered
from noisyir.training.artifacts import NOISE_FLAGS, TEACHER_SCORES
from noisyir.training.flags import with_flags

if TYPE_CHECKING:
    from noisyir.mining.candidates import Rows, Scores

log = logging.getLogger("noisyir")
_PAIR = ["query_id", "doc_id"]
_ORDER = [(name, "ascending") for name in _PAIR]
_FEWEST = 20  # judged candidates; fewer, or of one kind alone, say nothing of the curve
_LEAST = 1e-6  # chance in a target, of which there is a logarithm
_SAID = "{documents:,} documents, learnt from {by}; {relevant:.1%} likely relevant."
_UNWARRANTED = (
    "no made-up pairs warrant a share of wrong labels: no pair is flagged, and %.0f %% is supposed, the middle of "
    "their rates: judge 20 pairs drawn at random (noisyir audit --judge), or set detect.assume=best"
)


def estimate_relevance(job: Job[RelevanceParams]) -> None:
    """Learn how scores and labels tell of relevance; write the chance of each candidate, verdicts, and a target."""
    pool, training = job.table("pool"), np.asarray(pc.equal(job.table("pool")["split"], "train"))
    query, fold = numbered(pool["query_id"]), _folds(job, pool)
    columns = evidence(_scores(job, pool), query)
    given = np.asarray(pool["given"])
    candidates = LabelledCandidates(columns[training], query[training], given[training], fold[training])
    judged, (wrong, warranted) = _judged(job, pool, columns, fold), _wrong_share(job)
    chance, models = cross_fitted(candidates, wrong, judged)
    found = pool.filter(pa.array(training)).select([*_PAIR, "given"])
    found = found.append_column("score", pa.array(chance, pa.float32()))
    job.write("relevance", found.append_column("fold", pa.array(fold[training], pa.int32())))
    job.write("noise_flags", _verdicts(found, chance, job.params.threshold, said=bool(judged) or warranted))
    job.write("teacher_scores", _target(job, found))
    job.note(
        "posterior",
        {
            "documents": len(found), **_told(chance, models, judged),
            "wrong_share": wrong if warranted else None, "supposed_share": wrong,
        },
    )  # fmt: skip
    if judged is None and not warranted:
        log.warning(_UNWARRANTED, 100 * wrong)


def _told(chance: "Scores", models: list[LabelModel], judged: JudgedCandidates | None) -> dict[str, Any]:
    """The source of the chances, their mean, the chances of a label; of judgements the error on unseen queries."""
    said = {"by": "judgements" if judged else "labels", "relevant": float(chance.mean())}
    said |= {name: float(np.mean([getattr(model, name) for model in models])) for name in ("right", "wrong")}
    if judged is not None:
        without_labels = LabelledCandidates(judged.columns, judged.fold, np.zeros(len(judged.fold), bool), judged.fold)
        error = calibration_error(cross_fitted(without_labels, 0.0, judged)[0], judged.relevant)
        said |= {"judged": len(judged.fold), "calibration_error": error}
    return said


def _scores(job: Job[RelevanceParams], pool: pa.Table) -> "list[Scores]":
    """Each scorer's scores, in the pool's order.  DataError for scores of other documents."""
    tables = {name: table.sort_by(_ORDER) for name, table in job.tables("scores").items()}
    if others := [name for name, table in tables.items() if table.select(_PAIR) != pool.select(_PAIR)]:
        raise DataError("mining.scores_other_documents_pools", others=others[0])
    return [table["score"].to_numpy() for table in tables.values()]


def _folds(job: Job[RelevanceParams], pool: pa.Table) -> "Rows":
    """The fold of each row's query; queries of the same words are in one."""
    from noisyir.training.lists import folds_of

    asked = pool["query_id"].unique()
    texts = aligned(pa.table({"query_id": asked}), job.table("queries"), ["query_id"])["text"].to_pylist()
    fold: Rows = folds_of(texts, job.params.folds, job.rng("folds"))[numbered(pool["query_id"])]
    return fold


def _judged(job: Job[RelevanceParams], pool: pa.Table, columns: np.ndarray, fold: "Rows") -> JudgedCandidates | None:
    """The dev queries' candidates that people judged; None where they are too few, or of one kind."""
    said = pc.fill_null(aligned(pool, job.table("qrels"), _PAIR)["relevance"], -1).to_numpy()
    rows = np.flatnonzero((said >= 0) & np.asarray(pc.equal(pool["split"], "dev")))
    relevant = said[rows] > 0
    if len(rows) < _FEWEST or relevant.all() or not relevant.any():
        return None
    return JudgedCandidates(columns[rows], relevant, fold[rows])


def _wrong_share(job: Job[Any]) -> tuple[float, bool]:
    """The share of training pairs that are wrong, and whether anything warrants it; else the middle of its range.

    0 would be no caution: all labels would count as sure, and targets be the labels alone.
    """
    if not job.has("flags"):
        return 0.0, False
    pairs = job.table("pairs").filter(pc.equal(job.table("pairs")["split"], "train"))
    chances = with_flags(pairs, job.table("flags"))["p_clean"].drop_null()
    if len(chances):
        return 1.0 - float(pc.mean(chances).as_py()), True
    found = job.table("estimate").sort_by("epoch").to_pydict() if job.has("estimate") else {"name": [], "value": []}
    last = dict(zip(found["name"], found["value"], strict=True))
    return (last.get("rate_low", 0.0) + last.get("rate_high", 0.0)) / 2, False


def _verdicts(found: pa.Table, chance: "Scores", threshold: float, *, said: bool) -> pa.Table:
    """Flags of the given documents, and, instead of a wrong one, the likeliest other document of its query."""
    order = np.argsort(-chance, kind="stable")
    others = found.take(order).filter(pc.invert(found["given"].take(order)))
    best = others.group_by("query_id", use_threads=False).aggregate([("doc_id", "first")])
    given = found.filter(found["given"])
    p_clean = given["score"].to_numpy()
    return pa.table(
        {
            **{name: given[name] for name in _PAIR},
            "epoch": pa.array(np.zeros(len(given), np.int32)),
            "score": pa.array(1 - p_clean),
            "p_clean": given["score"] if said else pa.nulls(len(given), pa.float32()),
            "is_clean": pa.array((p_clean >= threshold) | (not said)),
            "replacement": aligned(given, best, ["query_id"])["doc_id_first"],
        }
    )


def _target(job: Job[RelevanceParams], found: pa.Table) -> pa.Table:
    """The teacher's lists with logarithms of chances, whose softmax is a list's chances over their sum."""
    lists = job.table("lists")
    chance = aligned(lists, found.select([*_PAIR, "score"]), _PAIR)["score"].to_numpy()
    score = np.log(np.clip(chance, _LEAST, 1.0)).astype(np.float32)
    place = lists.column_names.index("score")
    lists = lists.set_column(place, "score", pa.array(score))
    return lists.set_column(place + 1, "teacher", pa.repeat(pa.scalar("posterior"), len(lists)))


def posterior_judge(job: Job[PosteriorJudge]) -> None:
    """Drop candidates that are likelier relevant than the bound; those of which no chance is known have no verdict."""
    found = job.table("candidates").select(_PAIR)
    found = found.filter(pa.array(semi_join(found, job.table("relevance"))))
    chance = aligned(found, job.table("relevance"), _PAIR)["score"]
    keep = pc.less_equal(chance, job.params.max_relevance)
    job.write(
        "verdicts",
        found.append_column("score", chance)
        .append_column("bound", pa.repeat(pa.scalar(job.params.max_relevance, pa.float32()), len(found)))
        .append_column("keep", keep)
        .append_column("reason", pc.if_else(keep, "likely irrelevant by scores and label", "likely relevant by these")),
    )
    count = {"judged": len(found), "dropped": int(pc.sum(pc.invert(keep)).as_py() or 0)}
    job.note("posterior", {**count, "unknown": job.rows("candidates") - len(found)})


ESTIMATE_RELEVANCE = Stage(
    name="estimate_relevance",
    version=2,
    params=RelevanceParams,
    reads={
        "pool": CANDIDATE_POOL.all(),
        "scores": TEACHER_SCORES["query_id", "doc_id", "score"].each(),
        "lists": TEACHER_SCORES.all(),
        "queries": QUERIES["query_id", "text"],
        "qrels": QRELS["query_id", "doc_id", "relevance"],
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
        "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "p_clean", "is_clean"].or_none(),
        "estimate": NOISE_ESTIMATE.all().or_none(),
    },
    writes={"relevance": RELEVANCE, "noise_flags": NOISE_FLAGS, "teacher_scores": TEACHER_SCORES},
    run=estimate_relevance,
    seeded=True,
    story=partial(told, "posterior", "Posterior: " + _SAID),
)
POSTERIOR_JUDGE = Stage(
    name="posterior_judge",
    version=1,
    params=PosteriorJudge,
    reads={"candidates": CANDIDATES["query_id", "doc_id"], "relevance": RELEVANCE.all()},
    writes={"verdicts": VERDICTS},
    run=posterior_judge,
    story=partial(
        told, "posterior", "Posterior: {dropped:,} of {judged:,} candidate negatives were dropped as likely relevant."
    ),
)
