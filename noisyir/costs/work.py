"""How much work a stage has, from its settings and the size of the data: rows, operations and bytes, at most."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from noisyir.costs.nodes import Node, Sizes, upstream
from noisyir.costs.reading import READING
from noisyir.costs.scene import FLOAT, ROW, TEXT, Scene, Work
from noisyir.costs.shapes import TRAINING, encoder_shape

_IDS = 300  # bytes that a document's id takes in memory while it is read


def work_of(node: Node, sizes: Sizes) -> Work | None:
    """The work of a node; None for a stage that nothing is known of."""
    of_stage = WORK.get(node.stage)
    return of_stage(Scene(node, sizes)) if of_stage else None


def _ingest(of: Scene) -> Work:
    documents, asked = of.sizes.documents, sum(of.sizes.queries.values())
    disk = documents * of.length * TEXT
    return Work(documents, "documents", documents, ram=(documents + asked) * _IDS, disk=disk)


def _pairs(of: Scene) -> Work:
    return Work(of.sizes.pairs, "pairs", of.sizes.pairs, ram=of.sizes.documents * _IDS, disk=of.sizes.pairs * ROW)


def _init_model(of: Scene) -> Work:
    weights = of.tower.parameters * (1 if of.model.shared else 2)
    return Work(weights, "weights", weights, ram=2 * weights * FLOAT, disk=weights * FLOAT)


def _init_ranker(of: Scene) -> Work:
    weights = encoder_shape(of.params.weights, of.params.layers).parameters
    return Work(weights, "weights", weights, ram=2 * weights * FLOAT, disk=weights * FLOAT)


def _bm25_index(of: Scene) -> Work:
    documents = of.sizes.documents
    return Work(documents, "documents", documents * of.length, disk=documents * of.length * 2)


def _bm25(of: Scene) -> Work:
    asked = of.queries(*of.params.splits)
    return _found(asked, of.params.top_k, amount=asked * of.sizes.documents)


def _random_run(of: Scene) -> Work:
    return _found(of.training, of.params.top_k, amount=of.training * of.params.top_k)


def _found(queries: int, depth: int, amount: float, flops: float = 0.0, index: float = 0.0) -> Work:
    rows = queries * depth
    return Work(rows, "hits", amount, flops, ram=index + rows * ROW, disk=rows * ROW)


def _encode(of: Scene) -> Work:
    documents, asked = of.sizes.documents, of.queries(*of.params.splits)
    size = (2 if of.params.dtype == "float16" else FLOAT) * of.tower.hidden
    amount, flops = of.read(asked, documents)
    shard = min(of.params.shard_rows, documents) * (of.vector + of.length * TEXT)
    vectors = (documents + asked) * size
    return Work(documents + asked, "texts", amount, flops, vectors=vectors, ram=2 * shard, disk=vectors)


def _join_corpus(of: Scene) -> Work:
    """At most as many new documents as there are."""
    documents = 2 * of.sizes.documents
    text = of.length * TEXT
    return Work(documents, "documents", documents, ram=documents * (_IDS + text / 2), disk=documents * text)


def _encode_new(of: Scene) -> Work:
    """At most as `encode` has it, without queries."""
    documents = of.sizes.documents
    size = documents * (2 if of.params.dtype == "float16" else FLOAT) * of.tower.hidden
    amount, flops = of.read(0, documents)
    shard = min(of.params.shard_rows, documents) * (of.vector + of.length * TEXT)
    return Work(documents, "texts", amount, flops, vectors=size, ram=2 * shard, disk=size)


def _index(of: Scene) -> Work:
    documents = of.sizes.documents
    size = documents * index_bytes(of.params.factory, of.tower.hidden)
    trained = min(of.params.train_rows, documents) if re.search("IVF|PQ|SQ", of.params.factory) else 0
    ram = size + trained * of.vector
    return Work(documents, "vectors", documents * of.tower.hidden, vectors=size, ram=ram, disk=size)


def index_bytes(factory: str, dim: int) -> float:
    """Bytes that a FAISS index takes for a vector: its code, its links (HNSW) and its id (IVF)."""
    code: float = dim * FLOAT
    if found := re.search(r"PQ(\d+)", factory):
        code = int(found[1])
    elif found := re.search(r"SQ(fp16|\d+)", factory):
        code = dim * (2 if found[1] == "fp16" else int(found[1]) / 8)
    links = 2 * int(found[1]) * 4 if (found := re.search(r"HNSW(\d+)", factory)) else 0
    return code + links + (8 if "IVF" in factory else 0)


def _search(of: Scene) -> Work:
    encoded, built = upstream(of.node, "query_vectors"), upstream(of.node, "index")
    asked = of.queries(*getattr(encoded.params, "splits", ())) if encoded else 0
    factory = getattr(built.params, "factory", "Flat") if built else "Flat"
    compared: float = of.sizes.documents
    if found := re.search(r"IVF(\d+)", factory):
        compared *= min(1.0, of.params.probes / int(found[1]))
    elif "HNSW" in factory:
        compared = min(compared, of.params.breadth * 2 * math.log2(max(compared, 2)))
    flops = 2 * asked * compared * of.tower.hidden
    index = of.sizes.documents * index_bytes(factory, of.tower.hidden)
    return _found(asked, of.params.top_k, amount=flops, flops=flops, index=index)


def _candidates(of: Scene) -> Work:
    rows = of.training * (of.params.rank_to - of.params.rank_from + 1)
    compares = upstream(of.node, "doc_vectors") is not None
    vectors = min(of.sizes.documents, rows) * of.vector if compares else 0
    texts = min(of.sizes.documents, rows) * of.length * TEXT
    return Work(rows, "candidates", rows, ram=vectors + texts + rows * 4 * ROW, disk=rows * 2 * ROW)


def _mine(of: Scene) -> Work:
    rows, depth = of.training * of.params.per_query, of.params.rank_to - of.params.rank_from + 1
    return Work(rows, "negatives", of.training * depth, ram=of.training * depth * 4 * ROW, disk=rows * ROW)


def _trained(of: Scene, queries: float, passages: float, factor: float = 1.0) -> Work:
    """Training on so many queries and passages: factor times a forward and a backward pass."""
    amount, flops = of.read(queries, passages)
    again = of.again + (1 if getattr(of.params, "chunk_size", None) else 0)  # gradient caching reads everything twice
    weights = of.tower.parameters * FLOAT * (1 if of.model.shared else 2)
    ram = of.sizes.pairs * of.length * 2 * FLOAT + 4 * weights
    return Work(queries, "pairs read", factor * again * amount, factor * again * flops, ram=ram, disk=weights)


def _warm_up(of: Scene, factor: float = 1.0) -> Work:
    read = of.params.epochs * of.sizes.pairs
    return _trained(of, read, read * (1 + of.params.hard_negatives), factor)


def _npc(of: Scene) -> Work:
    """Each batch is read by the teacher, too, and all pairs before each epoch after the warm-up."""
    return _warm_up(of, factor=(TRAINING + 2) / TRAINING)


def _co_teach(of: Scene) -> Work:
    return _warm_up(of, factor=2.0)


def _sieve(of: Scene) -> Work:
    trained = _warm_up(of)
    pool = of.params.pool_size or of.params.hard_negatives
    amount, flops = of.read(of.training, of.training * (pool + 1))
    more = replace(trained, amount=trained.amount + amount, flops=trained.flops + flops)
    return replace(more, rows=of.training * pool, unit="candidates", disk=of.training * pool * ROW)


def _cross_judged(of: Scene) -> Work:
    rows = _candidate_rows(of)
    return _judged(rows, *of.judge(rows, of.params.weights, None, of.params.max_len))


def _ranker_judged(of: Scene) -> Work:
    rows = _candidate_rows(of)
    return _judged(rows, *of.rank(rows))


def _candidate_rows(of: Scene) -> int:
    params: Any = getattr(upstream(of.node, "candidates"), "params", None)
    return of.training * (params.rank_to - params.rank_from + 1) if params else 0


def _judged(rows: int, amount: float, flops: float) -> Work:
    return Work(rows, "candidates", amount, flops, disk=rows * ROW)


def _warm_up_ranker(of: Scene) -> Work:
    steps = of.params.epochs * math.ceil(of.training / of.params.batch_size)
    steps = min(steps, of.params.max_steps or steps)
    lists = steps * of.params.batch_size
    amount, flops = (of.again * value for value in of.rank(lists * (of.params.n + 1)))
    return Work(lists, "lists", amount, flops, disk=_ranker_bytes(of))


def _ar2(of: Scene) -> Work:
    """Ranker steps; then retriever steps, for each of which the ranker judges the batch, too."""
    of_ranker = of.params.ranker_steps * of.params.ranker_batch_size
    of_retriever = of.params.retriever_steps * of.params.retriever_batch_size
    pairs = of.params.n + 1
    trained = _trained(of, of_retriever, of_retriever * pairs)
    amount, flops = of.rank(1.0)
    read = of.again * of_ranker * pairs + of_retriever * pairs
    state = 3 * (_ranker_bytes(of) + trained.disk)  # both models, and both moments of each
    return replace(
        trained,
        rows=of_ranker + of_retriever,
        unit="lists",
        amount=trained.amount + read * amount,
        flops=trained.flops + read * flops,
        disk=state,
    )


def _ranker_bytes(of: Scene) -> int:
    return encoder_shape(of.ranker.weights, of.ranker.layers).parameters * FLOAT


def _rerank(of: Scene) -> Work:
    rows = of.queries("dev", "test") * of.params.depth
    amount, flops = of.rank(rows)
    return Work(rows, "hits", amount, flops, disk=rows * ROW)


def _score(of: Scene) -> Work:
    asked = of.queries(*of.params.splits)
    return Work(asked, "queries", asked + of.sizes.documents / 100, disk=asked * ROW * 10)


def _of_queries(of: Scene) -> Work:
    asked = of.queries("dev", "test")
    return Work(asked, "queries", asked)


def _report(of: Scene) -> Work:
    return Work(of.sizes.documents, "documents", of.sizes.documents)


WORK: Mapping[str, Callable[[Scene], Work]] = {
    "ingest": _ingest,
    "hide": _pairs,
    "corrupt": _pairs,
    "init_model": _init_model,
    "init_ranker": _init_ranker,
    "bm25_index": _bm25_index,
    "bm25": _bm25,
    "random_run": _random_run,
    "encode": _encode,
    "index": _index,
    "join_corpus": _join_corpus,
    "encode_new": _encode_new,
    "extend_index": _index,
    "search": _search,
    "candidates": _candidates,
    "mine": _mine,
    "sieve": _sieve,
    "cross_judge": _cross_judged,
    "ranker_judge": _ranker_judged,
    "pseudo_label": _pairs,
    "train_dpr": _warm_up,
    "train_npc": _npc,
    "train_co_teaching": _co_teach,
    "warm_up_ranker": _warm_up_ranker,
    "train_ar2": _ar2,
    "rerank": _rerank,
    "score_pairs": _pairs,
    "detect": _pairs,
    "repair": _pairs,
    "audit": _pairs,
    "score_detection": _pairs,
    "score": _score,
    "compare": _of_queries,
    "report": _report,
    **READING,
}
