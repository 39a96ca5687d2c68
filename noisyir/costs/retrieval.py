"""What encoding, indexing, searching and BM25 take."""

import math
import re

from noisyir.costs.workload import FLOAT, ID, ROW, Workload
from noisyir.engine.cost import Cost


def encoding(of: Workload) -> Cost:
    """Vectors of every document and, where the stage reads them, of queries."""
    documents = of.sizes.documents
    asked = of.queries(*of.params.splits) if "queries" in of.call.stage.reads else 0
    amount, flops = of.encode(asked, documents)
    vectors = (documents + asked) * (2 if of.params.dtype == "float16" else FLOAT) * of.tower.hidden
    shard = min(of.params.shard_rows, documents) * of.tower.hidden * FLOAT + of.texts(of.params.shard_rows)
    # the rate is of static models, which have no arithmetic to speak of
    return Cost(documents + asked, "texts", amount, flops, 2e-4, vectors=vectors, ram=2 * shard, disk=vectors)


def indexing(of: Workload) -> Cost:
    """An index of every document."""
    documents = of.sizes.documents
    size = documents * index_bytes(of.params.factory, of.tower.hidden)
    trained = min(of.params.train_rows, documents) if re.search("IVF|PQ|SQ", of.params.factory) else 0
    amount, ram = documents * of.tower.hidden, size + trained * of.tower.hidden * FLOAT
    return Cost(documents, "vectors", amount, rate=3e-8, vectors=size, ram=ram, disk=size)


def index_bytes(factory: str, dim: int) -> float:
    """Bytes that a FAISS index takes for a vector: its code, its links (HNSW) and its id (IVF)."""
    code: float = dim * FLOAT
    if found := re.search(r"PQ(\d+)", factory):
        code = int(found[1])
    elif found := re.search(r"SQ(fp16|\d+)", factory):
        code = dim * (2 if found[1] == "fp16" else int(found[1]) / 8)
    links = 2 * int(found[1]) * 4 if (found := re.search(r"HNSW(\d+)", factory)) else 0
    return code + links + (8 if "IVF" in factory else 0)


def searching(of: Workload) -> Cost:
    """Every query against as many documents as the index compares it with."""
    encoded, built = of.call.upstream("query_vectors"), of.call.upstream("index")
    asked = of.queries(*getattr(encoded and encoded.params, "splits", ()))
    factory = getattr(built and built.params, "factory", "Flat")
    compared: float = of.sizes.documents
    if found := re.search(r"IVF(\d+)", factory):
        compared *= min(1.0, of.params.probes / int(found[1]))
    elif "HNSW" in factory:
        compared = min(compared, of.params.breadth * 2 * math.log2(max(compared, 2)))
    flops = 2 * asked * compared * of.tower.hidden
    index = of.sizes.documents * index_bytes(factory, of.tower.hidden)
    return hits(asked * of.params.top_k, flops, flops, ram=index)


def bm25_indexing(of: Workload) -> Cost:
    """An inverted index of every document."""
    words = of.sizes.documents * of.length
    return Cost(of.sizes.documents, "documents", words, rate=1.2e-6, disk=words * 2)


def bm25_searching(of: Workload) -> Cost:
    """Every query against the inverted index."""
    asked = of.queries(*of.params.splits)
    return hits(asked * of.params.top_k, asked * of.sizes.documents, rate=7e-8)


def hits(rows: float, amount: float, flops: float = 0.0, rate: float | None = None, ram: float = 0.0) -> Cost:
    """A ranking of so many rows; ram: bytes held beside it."""
    return Cost(rows, "hits", amount, flops, rate, ram=ram + rows * ROW, disk=rows * ROW)


def per_pair(of: Workload, rate: float | None = None) -> Cost:
    """One look at each training pair; rate: seconds for a pair."""
    count = of.sizes.pairs
    return Cost(count, "pairs", count, rate=rate, ram=of.sizes.documents * ID, disk=count * ROW)
