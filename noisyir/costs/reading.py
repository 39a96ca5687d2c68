"""What readers take, and the stages around them, at most: as if every passage held the answer, once."""

from typing import Any

from noisyir.costs.shapes import weights_of
from noisyir.costs.workload import FLOAT, ROW, Call, Workload
from noisyir.engine.cost import Cost


def finding_confusing(of: Workload) -> Cost:
    """Every distinct passage is a query of BM25."""
    asked, depth = asked_of(of, of.call.upstream("spans"))
    passages = min(of.sizes.documents, asked * depth)
    found = passages * of.params.depth
    disk = asked * depth * of.params.per_passage * ROW
    amount, ram = passages * of.sizes.documents, of.texts(found) + found * ROW
    return Cost(passages, "passages", amount, rate=4e-8, ram=ram, disk=disk)


def reader_training(of: Workload) -> Cost:
    """A window of every passage with a label, and confusing ones beside them."""
    params, (asked, labelled) = of.params, asked_of(of, of.call.upstream("spans"))
    if params.objective == "ds_top":
        labelled = min(labelled, params.top_passages)
    read: float = min(labelled, params.instances or labelled)
    if params.objective == "cds" and params.beta > 0:
        read += read * params.confusing_share
    questions, weights = params.epochs * asked, weights_of(of.reader) * FLOAT
    amount, flops = (of.again * value for value in of.read(questions * read))
    ram, disk = of.texts(asked * labelled) + 4 * weights, weights + confidences_of(of, of.call) * ROW
    return Cost(questions, "questions", amount, flops, ram=ram, disk=disk)


def reading(of: Workload) -> Cost:
    """A window of every passage, read once."""
    asked, depth = asked_of(of, of.call.upstream("passages"))
    ram = of.texts(asked * depth) + weights_of(of.reader) * FLOAT
    return Cost(asked * depth, "passages", *of.read(asked * depth), ram=ram, disk=asked * of.params.n_best * ROW)


def asked_of(of: Workload, spans: Call | None) -> tuple[int, int]:
    """How many questions a call that finds spans looks at, and how many passages of each: 1 of judgements."""
    if spans is None:
        return 0, 0
    params: Any = spans.params
    questions, run = of.queries(*params.splits), spans.upstream("run")
    depth = params.top_k if run is None or hasattr(run.params, "top_k") else 1
    return min(questions, params.max_questions or questions), depth


def confidences_of(of: Workload, trained: Call) -> int:
    """Rows that the training of a reader writes of its instances: at the start, and after each update."""
    params: Any = trained.params
    if params.objective != "cds":
        return 0
    asked, depth = asked_of(of, trained.upstream("spans"))
    updates: int = params.epochs * params.updates_per_epoch
    return asked * depth * (1 + updates)
