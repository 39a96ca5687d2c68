"""rerank: a run with its best documents ranked again by the ranker."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.remote.shards import Block, blocks_of
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import with_values
from noisyir.models.artifacts import RANKER
from noisyir.retrieval.artifacts import DENSE_RUN, RERANKED_RUN
from noisyir.retrieval.settings import RerankParams

if TYPE_CHECKING:
    from noisyir.models.cross_encoder import TextPairs

Rows = npt.NDArray[np.int64]

_PAIRS_AT_ONCE = 16384  # sorted by length and read together
_GAP = 1e-3  # between the ranker's lowest score and the highest one below


def rerank(job: Job[RerankParams]) -> None:
    """Score the first `depth` documents of every query again and sort them; the others keep their order."""
    run, query, place = _ordered(job)
    read = place < job.params.depth
    pairs = int(read.sum())
    blocks = blocks_of("logits", pairs, _PAIRS_AT_ONCE)
    parts = job.spread(rerank_shards, blocks, total=pairs, unit="pairs")
    scores = run["score"].to_numpy().astype(np.float64)
    scores[read] = np.concatenate([np.empty(0), *(pq.read_table(part)["logit"].to_numpy() for part in parts)])
    scores = lowered(scores, query, place, job.params.depth)
    order = np.lexsort((place, np.where(read, -scores, 0.0), ~read, query))
    rank, score = pa.array(place + 1, pa.int32()), pa.array(scores[order], pa.float32())
    job.write("reranked_run", with_values(run.select(["query_id", "doc_id"]).take(order), rank=rank, score=score))
    job.note("pairs_read", pairs)


def rerank_shards(job: Job[RerankParams], blocks: Sequence[Block]) -> Iterator[pa.Table]:
    """Yield the ranker's logits of some blocks of pairs, in a column `logit`."""
    import torch

    from noisyir.models.cross_encoder import load_cross_encoder
    from noisyir.models.ranker import ranker_max_len

    torch.set_num_threads(job.runtime.cpu_threads)
    run, _, place = _ordered(job)
    read, folder = run.filter(pa.array(place < job.params.depth)), job.folder("ranker")
    judge = load_cross_encoder(folder, ranker_max_len(folder), job.runtime.device)
    some = [read.slice(first, end - first) for first, end in blocks]
    texts = _texts(job, pa.concat_tables(some))
    with torch.autocast(judge.model.device.type, torch.bfloat16, enabled=job.params.precision == "bf16"):
        first = 0
        for rows in some:
            yield pa.table({"logit": judge.logits(texts[first : first + len(rows)], job.runtime.batch_tokens)})
            first += len(rows)


def _ordered(job: Job[RerankParams]) -> tuple[pa.Table, Rows, Rows]:
    """Return the run by query and rank, and each row's query number and place."""
    from noisyir.retrieval.texts import places

    run = job.table("run").sort_by([("query_id", "ascending"), ("rank", "ascending")]).combine_chunks()
    return run, *places(run)


def lowered(scores: npt.NDArray[np.float64], query: Rows, place: Rows, depth: int) -> npt.NDArray[np.float64]:
    """Shift the scores from place `depth` on to just below all before, by one shift a query."""
    lowest = np.full(int(query.max(initial=-1)) + 1, np.inf)
    np.minimum.at(lowest, query[place < depth], scores[place < depth])
    first = np.zeros_like(lowest)
    first[query[place == depth]] = scores[place == depth]
    return np.where(place < depth, scores, scores - first[query] + lowest[query] - _GAP)


def _texts(job: Job[RerankParams], rows: pa.Table) -> "TextPairs":
    """Return the texts of each row as the ranker reads them; refuse ids without a text."""
    from noisyir.models.cross_encoder import TextPairs
    from noisyir.retrieval.texts import passages_of

    queries = job.table("queries")
    questions = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    passages = passages_of(job.batches("corpus"), rows["doc_id"])
    query_ids, doc_ids = rows["query_id"].to_pylist(), rows["doc_id"].to_pylist()
    for kind, ids, known in (("queries", query_ids, questions), ("documents", doc_ids, passages)):
        if unknown := [one for one in ids if one not in known]:
            raise DataError("retrieval.unknown_ids_in_run", rows=len(unknown), of=kind, example=unknown[0])
    return TextPairs([questions[one] for one in query_ids], [passages[one] for one in doc_ids])


RERANK = Stage(
    name="rerank",
    version=2,
    params=RerankParams,
    reads={
        "ranker": RANKER.all(),
        "run": DENSE_RUN["query_id", "doc_id", "rank", "score"],
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "title", "text"],
    },
    writes={"reranked_run": RERANKED_RUN},
    run=rerank,
    pool="gpu",
    spreads=True,
)
