"""What training takes, of bi-encoders on pairs and of rankers on lists, and judging pairs by a cross-encoder."""

import math
from typing import Any

from noisyir.costs.shapes import weights_of
from noisyir.costs.workload import FLOAT, ROW, Workload
from noisyir.engine.cost import Cost


def initialising(of: Workload) -> Cost:
    """Building a model, in memory and on disk."""
    weights = weights_of(of.params)
    return Cost(weights, "weights", weights, rate=3e-7, ram=2 * weights * FLOAT, disk=weights * FLOAT)


def bi_encoder_training(of: Workload, factor: float = 1.0, rate: float | None = None) -> Cost:
    """Epochs over the training pairs with their hard negatives.

    factor: how much more than a forward and a backward pass; rate: of static models, which have no arithmetic.
    """
    read = of.params.epochs * of.sizes.pairs
    return _trained(of, read, read * (1 + of.params.hard_negatives), factor, rate)


def sieving(of: Workload) -> Cost:
    """Training, and then a pass over the pools of candidates."""
    trained = bi_encoder_training(of)
    pool = of.training * (of.params.pool_size or of.params.hard_negatives)
    amount, flops = of.encode(of.training, pool + of.training)
    amount, flops = trained.amount + amount, trained.flops + flops
    return Cost(pool, "candidates", amount, flops, ram=trained.ram, disk=pool * ROW)


def _trained(of: Workload, queries: float, passages: float, factor: float = 1.0, rate: float | None = None) -> Cost:
    """Training on so many queries and passages."""
    again = of.again + (1 if getattr(of.params, "chunk_size", None) else 0)  # gradient caching reads everything twice
    amount, flops = (factor * again * value for value in of.encode(queries, passages))
    weights = weights_of(of.model) * FLOAT
    ram = of.sizes.pairs * of.length * 2 * FLOAT + 4 * weights
    return Cost(queries, "pairs read", amount, flops, rate, ram=ram, disk=weights)


def ranker_training(of: Workload) -> Cost:
    """Steps of a ranker on lists."""
    steps = of.params.epochs * math.ceil(of.training / of.params.batch_size)
    lists = min(steps, of.params.max_steps or steps) * of.params.batch_size
    amount, flops = (of.again * value for value in of.judge(lists * (of.params.n + 1), of.ranker))
    return Cost(lists, "lists", amount, flops, disk=weights_of(of.ranker) * FLOAT)


def ar2_training(of: Workload) -> Cost:
    """Ranker steps; then retriever steps, for each of which the ranker judges the batch, too."""
    of_ranker = of.params.ranker_steps * of.params.ranker_batch_size
    of_retriever = of.params.retriever_steps * of.params.retriever_batch_size
    listed = of.params.n + 1
    trained = _trained(of, of_retriever, of_retriever * listed)
    amount, flops = of.judge(of.again * of_ranker * listed + of_retriever * listed, of.ranker)
    state = 3 * (weights_of(of.ranker) * FLOAT + trained.disk)  # both models, and both moments of each
    amount, flops = trained.amount + amount, trained.flops + flops
    return Cost(of_ranker + of_retriever, "lists", amount, flops, ram=trained.ram, disk=state)


def reranking(of: Workload) -> Cost:
    """The ranker reads what was found for the queries that are scored."""
    rows = of.queries("dev", "test") * of.params.depth
    return Cost(rows, "hits", *of.judge(rows, of.ranker), disk=rows * ROW)


def judging(of: Workload) -> Cost:
    """Every candidate negative is read by the ranker that is given, else by a cross-encoder of the stage's settings."""
    candidates = of.call.upstream("candidates")
    rows = of.training * _depth(candidates.params) if candidates else 0
    read = of.judge(rows, of.ranker if "ranker" in of.call.stage.reads else of.params)
    return Cost(rows, "candidates", *read, disk=rows * ROW)


def drawing_negatives(of: Workload) -> Cost:
    """Negatives are drawn from each query's candidates."""
    rows, looked_at = of.training * of.params.per_query, of.training * _depth(of.params)
    return Cost(rows, "negatives", looked_at, rate=2e-6, ram=looked_at * 4 * ROW, disk=rows * ROW)


def _depth(params: Any) -> int:
    """Ranks of which candidates are taken."""
    return int(params.rank_to - params.rank_from + 1)
