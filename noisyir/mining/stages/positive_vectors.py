"""positive_vectors: for each training query the vector of its positive, to rank candidates by s(d+, d-).

Source: TriSampler, Table 4, candidates TopK of s(d+, D), and Figure 1, a shell around the positive.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR
from noisyir.data.artifacts import CORPUS, PAIRS
from noisyir.data.draws import positions
from noisyir.engine.stage import Job, Stage
from noisyir.mining import artifacts
from noisyir.mining.settings import PositiveVectorsParams
from noisyir.mining.stages.candidates import PRODUCTS_AT_ONCE, VECTORS_AT_ONCE, compared_pairs, picked_vectors
from noisyir.retrieval.artifacts import DOC_VECTORS, QUERY_VECTORS


def positive_vectors(job: Job[PositiveVectorsParams]) -> None:
    """Pick the vector of each training query's positive, the best or the worst by score if it has several."""
    from noisyir.mining.candidates import dot_rows
    from noisyir.retrieval.texts import among

    pairs = job.table("pairs")
    pairs = pairs.filter(pc.equal(pairs["split"], "train")).sort_by(BY_PAIR)
    asked, named = pairs["query_id"].unique(), pairs["doc_id"].unique()
    found = pa.Table.from_batches(list(among(job.batches("corpus"), named)))
    rows = found["doc_row"].take(pc.index_in(named, value_set=found["doc_id"])).combine_chunks()
    queries = picked_vectors(job.batches("query_vectors", VECTORS_AT_ONCE), "query_vectors", asked)
    passages = picked_vectors(job.batches("doc_vectors", VECTORS_AT_ONCE), "doc_vectors", rows)
    of_query, of_pair = positions(pairs["query_id"], asked), positions(pairs["doc_id"], named)
    score = dot_rows(queries, of_query, passages, of_pair, PRODUCTS_AT_ONCE)
    chosen = of_pair[compared_pairs(of_query, score, job.params.positive)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(passages[chosen])), passages.shape[1])
    job.write("positive_vectors", pa.table({"query_id": asked, "vector": vectors}))


POSITIVE_VECTORS = Stage(
    name="positive_vectors",
    version=1,
    params=PositiveVectorsParams,
    reads={
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "corpus": CORPUS["doc_id", "doc_row"],
        "doc_vectors": DOC_VECTORS.all(),
        "query_vectors": QUERY_VECTORS.all(),
    },
    writes={"positive_vectors": artifacts.POSITIVE_VECTORS},
    run=positive_vectors,
)
