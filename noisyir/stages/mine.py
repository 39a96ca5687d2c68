"""mine: hard negatives for the training queries, drawn from their candidates."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.config import MineParams
from noisyir.errors import ConfigError
from noisyir.schemas import CANDIDATES, NEGATIVES, PAIRS
from noisyir.stage import Job, Stage

if TYPE_CHECKING:
    from noisyir.mining.candidates import Candidates


def mine(job: Job[MineParams]) -> None:
    """Filter the candidates, weigh the rest, and draw; equal for equal candidates in whatever order they come."""
    from noisyir.mining.draw import draw, shares
    from noisyir.mining.tiers import filtered, stacked, tiers

    params = job.params
    table, candidates = _by_ids(job)
    kept, removed = np.ones(len(candidates), bool), {}
    for name, keeps in filtered(candidates, params.filters).items():
        removed[name] = int((kept & ~keeps).sum())
        kept &= keeps
    candidates = candidates.take(kept)
    weights = tiers(candidates, params, job.rng("transitional"))
    drawn = draw(stacked(weights), candidates.query, candidates.document, params.per_query, job.rng("draw"))
    weight = shares(weights[params.sampler], candidates.query)[drawn.rows]
    job.write(
        "negatives",
        table.select(["query_id", "doc_id"])
        .take(np.flatnonzero(kept)[drawn.rows])
        .append_column("weight", pa.array(weight, pa.float32()))
        .append_column("draw", pa.array(drawn.draw, pa.int32())),
    )
    sampler, *others = np.bincount(drawn.tier, minlength=len(weights)).tolist()
    training = pc.count_distinct(_training(job)).as_py()
    full = int((np.bincount(candidates.query[drawn.rows]) >= params.per_query).sum())
    job.note(
        "negatives",
        {
            "candidates": table.num_rows,
            "removed": removed,
            "drawn": sampler + sum(others),
            "filled_up_by": dict(zip(list(weights)[1:], others, strict=True)),
            "fallback_rate": sum(others) / max(1, len(drawn.rows)),
            "queries": training,
            "queries_with_too_few": training - full,
        },
    )


def _training(job: Job[MineParams]) -> pa.ChunkedArray:
    pairs = job.table("pairs")
    return pairs.filter(pc.equal(pairs["split"], "train"))["query_id"]


def _by_ids(job: Job[MineParams]) -> tuple[pa.Table, "Candidates"]:
    """The candidates in the order of their ids, and as arrays.  ConfigError where scores are needed and missing."""
    from noisyir.mining.candidates import Candidates

    params, table = job.params, job.table("candidates")
    if params.needs_scores and table["score"].null_count:
        filters = params.filters.used
        wants = f"mine.filters.{filters[0]}" if filters else f"mine.sampler={params.sampler}"
        raise ConfigError(f"{wants} needs scores: give the stage candidates the vectors of a model")
    query, document = (
        pc.rank(table[name], tiebreaker="dense").to_numpy().astype(np.int64) - 1 for name in ("query_id", "doc_id")
    )
    order = np.lexsort((document, query))
    scores = {name: table[name].to_numpy() for name, kind in CANDIDATES.columns.items() if kind == pa.float32()}
    return table.take(order), Candidates(query, document, table["rank"].to_numpy(), **scores).take(order)


MINE = Stage(
    name="mine",
    version=2,
    params=MineParams,
    reads={"candidates": CANDIDATES.all(), "pairs": PAIRS["query_id", "split"]},
    writes={"negatives": NEGATIVES},
    run=mine,
    seeded=True,
)
