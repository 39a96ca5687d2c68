"""Indexes, vectors and runs."""

from noisyir.base.artifact import F64, FLOATS, I32, PAIR_KEY, RUN, STRING, Artifact

LEXICAL_INDEX = Artifact("lexical_index", 1)
BM25_RUN = Artifact("bm25_run", 1, RUN, PAIR_KEY)
DENSE_RUN = Artifact("dense_run", 1, RUN, PAIR_KEY)
RANDOM_RUN = Artifact("random_run", 1, RUN, PAIR_KEY)
RERANKED_RUN = Artifact("reranked_run", 1, RUN, PAIR_KEY)
FUSED_RUN = Artifact("fused_run", 1, RUN, PAIR_KEY)
# How BM25 and vectors are combined, in one row; `weight` is the vectors', `low` and `high` its interval.
_WEIGHT = dict.fromkeys(("weight", "low", "high"), F64)
FUSION = Artifact("fusion", 1, {"by": STRING, "k": I32, **_WEIGHT, "queries": I32}, ("by",), nullable=("low", "high"))
DOC_VECTORS = Artifact("doc_vectors", 1, {"doc_row": I32, "vector": FLOATS}, ("doc_row",))
QUERY_VECTORS = Artifact("query_vectors", 1, {"query_id": STRING, "vector": FLOATS}, ("query_id",))
INDEX = Artifact("index", 1)
