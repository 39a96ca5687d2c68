"""fuse: BM25's and vectors' runs as one, with the weight that dev queries prefer.

A dev query is ranked by the weight that other groups' dev queries prefer (cross-fitting), so that dev's values of the
hybrid are not optimistic.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.artifacts import QRELS, QUERIES
from noisyir.data.own_documents import without_own_documents
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.artifacts import BM25_RUN, DENSE_RUN, FUSED_RUN, FUSION
from noisyir.retrieval.fusion import (
    UNKNOWN_WEIGHT,
    Weight,
    candidates_of,
    chosen_weight,
    cross_fitted_weights,
    fused_run,
    fused_scores,
    values_by_weight,
)
from noisyir.retrieval.measures import judged, query_groups, searched_for_dev
from noisyir.retrieval.settings import HybridParams


def fuse(job: Job[HybridParams]) -> None:
    """Write the fused run, and a row that describes the fusion."""
    params, lexical, dense = job.params, job.table("lexical"), job.table("dense")
    weight = Weight(params.weight if params.weight is not None else UNKNOWN_WEIGHT)
    by_query: dict[str, float] = {}
    if params.by == "sum" and params.weight is None:
        weight, by_query = _by_dev(job, lexical, dense) or (weight, by_query)
    row = {"by": params.by, "k": params.k, "weight": weight.value, "low": weight.low, "high": weight.high}
    job.write("fusion", pa.Table.from_pylist([{**row, "queries": len(by_query)}], schema=FUSION.schema))
    found = candidates_of(lexical, dense)
    weights = np.array([by_query.get(one, weight.value) for one in found.query_ids.unique().to_pylist()])[found.query]
    job.write("fused_run", fused_run(found, fused_scores(found, params.by, weights, params.k), params.top_k))


def _by_dev(job: Job[HybridParams], lexical: pa.Table, dense: pa.Table) -> tuple[Weight, dict[str, float]] | None:
    """Return the weight, and each dev query's own; None if no dev query is judged or one side did not search."""
    queries = job.table("queries")
    judgements = judged(job.table("qrels"), queries.filter(pc.equal(queries["split"], "dev"))["query_id"].to_pylist())
    runs = {"lexical": lexical, "dense": dense}
    if not judgements or not all(
        searched_for_dev(run, job.ref(name), job.store, judgements) for name, run in runs.items()
    ):
        return None
    query_ids = pa.array(judgements, pa.string())
    runs = without_own_documents(
        job, {of: run.filter(pc.is_in(run["query_id"], query_ids)) for of, run in runs.items()}
    )
    found = candidates_of(runs["lexical"], runs["dense"])
    # judgements and candidates are in the order of ids; a query without candidates has no rows
    numbers = {query_id: number for number, query_id in enumerate(judgements)}
    pairs = list(zip(found.query_ids.to_pylist(), found.doc_ids.to_pylist(), strict=True))
    relevance = np.array([judgements[query_id].get(doc_id, 0) for query_id, doc_id in pairs], np.float64)
    found = found._replace(query=np.array([numbers[query_id] for query_id, _ in pairs], np.int64))
    most = max(map(len, judgements.values()))
    ideal = np.zeros((len(judgements), most))
    for number, grades in enumerate(judgements.values()):
        ideal[number, : len(grades)] = sorted(grades.values(), reverse=True)
    groups = query_groups(judgements)
    drawn = np.unique([groups[query_id] for query_id in judgements], return_inverse=True)[1]
    values = values_by_weight(found, np.maximum(relevance, 0), np.maximum(ideal, 0))
    crossed = cross_fitted_weights(values, drawn, job.rng("folds")).tolist()
    return chosen_weight(values, drawn, job.rng("queries")), dict(zip(judgements, crossed, strict=True))


FUSE = Stage(
    name="fuse",
    version=3,
    params=HybridParams,
    reads={
        "lexical": BM25_RUN.all(),
        "dense": DENSE_RUN.all(),
        "queries": QUERIES["query_id", "text", "split"],
        "qrels": QRELS["query_id", "doc_id", "relevance"],
    },
    writes={"fused_run": FUSED_RUN, "fusion": FUSION},
    run=fuse,
    seeded=True,
)
