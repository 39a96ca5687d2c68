"""join_negatives, judge_negatives: which of the wrong documents that the data itself gives look like right ones."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join
from noisyir.schemas.data import GIVEN_NEGATIVES, NOISY_PAIRS
from noisyir.schemas.noise import PAIR_SCORES
from noisyir.schemas.training import CANDIDATES, VERDICTS
from noisyir.settings import Params

_PAIR = ["query_id", "doc_id"]
_REASONS = {True: "fits its query less than the best positive", False: "fits its query as the best positive does"}


def join_negatives(job: Job[Params]) -> None:
    """Training pairs of queries that have negatives, and behind them these, as one table for a detector."""
    pairs, negatives = job.table("pairs"), job.table("given_negatives")
    with_negatives = pc.is_in(pairs["query_id"], value_set=pc.unique(negatives["query_id"]))
    training = pairs.filter(pc.and_(with_negatives, pc.equal(pairs["split"], "train")))
    of_training = pc.is_in(negatives["query_id"], value_set=pc.unique(training["query_id"]))
    others = negatives.filter(pc.and_(of_training, pa.array(~semi_join(negatives, training)))).select(_PAIR)
    others = others.append_column("split", pa.repeat("train", others.num_rows))
    others = others.append_column("source", pa.nulls(others.num_rows, pa.string()))
    job.write("noisy_pairs", pa.concat_tables([training, others.cast(training.schema)]))


def judge_negatives(job: Job[Params]) -> None:
    """Keep a negative that fits its query less than the best of the query's positives does, by the same detector.

    One that is a positive of its query, too, is not kept.
    """
    pairs, negatives, scores = job.table("pairs"), job.table("given_negatives"), job.table("scores")
    fit = scores.select(_PAIR).append_column("fit", pc.negate(scores["score"]))
    positives = fit.filter(pa.array(semi_join(fit, pairs))).sort_by([("fit", "descending"), ("doc_id", "ascending")])
    first = pc.index_in(negatives["query_id"], value_set=positives["query_id"].combine_chunks())
    judged = negatives.select(_PAIR).append_column("positive", positives["doc_id"].take(first))
    judged = judged.append_column("bound", positives["fit"].take(first)).filter(pc.is_valid(first))
    judged = judged.join(fit, _PAIR, join_type="inner").sort_by([("query_id", "ascending"), ("fit", "descending")])
    kept = pc.less(judged["fit"], judged["bound"])
    columns = {"score": judged["fit"], "bound": judged["bound"], "keep": kept}
    reasons = pa.array([_REASONS[keep] for keep in kept.to_pylist()], pa.string())
    job.write("verdicts", pa.table({**{name: judged[name] for name in _PAIR}, **columns, "reason": reasons}))
    job.write("candidates", _candidates(judged))
    job.note("given", {"judged": judged.num_rows, "as_good": judged.num_rows - (pc.sum(kept).as_py() or 0)})


def _candidates(judged: pa.Table) -> pa.Table:
    """Each negative beside the best positive, with its place among those of its query; no vectors are known."""
    query = np.asarray(judged["query_id"].combine_chunks().dictionary_encode().indices, np.int64)
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    rank = np.arange(len(query)) - np.repeat(starts, np.diff(starts, append=len(query))) + 1
    known = {
        **{name: judged[name] for name in _PAIR},
        "rank": pa.array(rank, pa.int32()),
        "positive": judged["positive"],
    }
    columns = {name: known.get(name, pa.nulls(len(rank), kind)) for name, kind in CANDIDATES.columns.items()}
    return pa.table(columns, schema=CANDIDATES.schema)


JOIN_NEGATIVES = Stage(
    name="join_negatives",
    version=1,
    params=Params,
    reads={"pairs": NOISY_PAIRS["query_id", "doc_id", "split", "source"], "given_negatives": GIVEN_NEGATIVES.all()},
    writes={"noisy_pairs": NOISY_PAIRS},
    run=join_negatives,
)
JUDGE_NEGATIVES = Stage(
    name="judge_negatives",
    version=1,
    params=Params,
    reads={
        "pairs": NOISY_PAIRS["query_id", "doc_id"],
        "given_negatives": GIVEN_NEGATIVES.all(),
        "scores": PAIR_SCORES["query_id", "doc_id", "score"],
    },
    writes={"candidates": CANDIDATES, "verdicts": VERDICTS},
    run=judge_negatives,
)
