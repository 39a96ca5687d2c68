"""mine: hard negatives for the training queries, out of a ranking of them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.config import MineParams
from noisyir.schemas import ANSWERS, BM25_RUN, CORPUS, NEGATIVES, PAIRS
from noisyir.stage import Job, Stage

Mask = npt.NDArray[np.bool_]


def mine(job: Job[MineParams]) -> None:
    """Draw uniformly, without replacement, among the ranks asked for that are not known to be relevant.

    Known are what the pairs name and, where the data has answers, documents that hold one.  The judgements are not
    looked at: under injected noise they know which pair was right, which nobody has outside an experiment.
    """
    from noisyir.mining.draw import draw, uniform_weights

    params = job.params
    candidates = _candidates(job)
    relevant, answering = _known_relevant(job, candidates), _answering(job, candidates)
    query = candidates["query_id"].combine_chunks().dictionary_encode()
    numbers = query.indices.to_numpy()
    drawn, order = draw(uniform_weights(~(relevant | answering)), numbers, params.per_query, job.rng("draw"))
    job.write(
        "negatives",
        candidates.select(["query_id", "doc_id"])
        .take(drawn)
        .append_column("weight", pa.array(np.ones(len(drawn)), pa.float32()))
        .append_column("draw", pa.array(order, pa.int32())),
    )
    per_query = np.bincount(numbers[drawn], minlength=len(query.dictionary))
    job.note(
        "negatives",
        {
            "candidates": candidates.num_rows,
            "removed_as_relevant": int(relevant.sum()),
            "removed_as_answering": int((answering & ~relevant).sum()),
            "drawn": len(drawn),
            "queries": len(per_query),
            "queries_with_too_few": int((per_query < params.per_query).sum()),
        },
    )


def _candidates(job: Job[MineParams]) -> pa.Table:
    """Hits of the training queries at the ranks that may be drawn, by query in the run's order and then by rank."""
    run, pairs = job.table("run"), job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))["query_id"].unique()
    ranks = pc.and_(pc.greater_equal(run["rank"], job.params.rank_from), pc.less_equal(run["rank"], job.params.rank_to))
    return run.filter(pc.and_(ranks, pc.is_in(run["query_id"], value_set=training)))


def _known_relevant(job: Job[MineParams], candidates: pa.Table) -> Mask:
    """Which candidates are a pair."""
    pair = ["query_id", "doc_id"]
    known = job.table("pairs").select(pair)
    numbered = candidates.select(pair).append_column("row", pa.array(np.arange(candidates.num_rows)))
    relevant = np.zeros(candidates.num_rows, bool)
    relevant[numbered.join(known, pair, join_type="left semi")["row"].to_numpy()] = True
    return relevant


def _answering(job: Job[MineParams], candidates: pa.Table) -> Mask:
    """Which candidates' texts hold an answer to their query (DPR's rule); none where the data has no answers."""
    if not (job.has("answers") and job.has("corpus")) or job.rows("answers") == 0:
        return np.zeros(candidates.num_rows, bool)
    from noisyir.eval.answers import token_line

    wanted = candidates["doc_id"].unique()
    lines: dict[str, str] = {}
    for batch in job.batches("corpus"):
        found = batch.filter(pc.is_in(batch["doc_id"], value_set=wanted))
        lines.update(zip(found["doc_id"].to_pylist(), map(token_line, found["text"].to_pylist()), strict=True))
    asked = job.table("answers")
    answers = {
        query_id: [line for alias in aliases if (line := token_line(alias)).strip()]
        for query_id, aliases in zip(asked["query_id"].to_pylist(), asked["aliases"].to_pylist(), strict=True)
    }
    pairs = zip(candidates["query_id"].to_pylist(), candidates["doc_id"].to_pylist(), strict=True)
    held = (any(answer in lines[doc_id] for answer in answers.get(query_id, ())) for query_id, doc_id in pairs)
    return np.fromiter(held, bool, candidates.num_rows)


MINE = Stage(
    name="mine",
    version=1,
    params=MineParams,
    reads={
        "run": BM25_RUN["query_id", "doc_id", "rank"],
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "answers": ANSWERS.all().or_none(),
        "corpus": CORPUS["doc_id", "text"].or_none(),
    },
    writes={"negatives": NEGATIVES},
    run=mine,
    seeded=True,
)
