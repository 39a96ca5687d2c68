"""How much work the stages of readers have, at most: as if every passage held the answer, once."""

from collections.abc import Callable, Mapping
from typing import Any

from noisyir.costs.nodes import Node, ancestor, upstream
from noisyir.costs.scene import FLOAT, ROW, TEXT, Scene, Work
from noisyir.costs.shapes import encoder_shape


def _init_reader(of: Scene) -> Work:
    weights = encoder_shape(of.params.weights, of.params.layers).parameters
    return Work(weights, "weights", weights, ram=2 * weights * FLOAT, disk=weights * FLOAT)


def _given_run(of: Scene) -> Work:
    rows = sum(of.sizes.queries.values())
    return Work(rows, "hits", rows, ram=rows * ROW, disk=rows * ROW)


def _spans(of: Scene) -> Work:
    asked, depth = _asked(of, of.node)
    rows = asked * depth
    return Work(rows, "passages", rows, ram=_texts(of, rows) + rows * ROW, disk=2 * rows * ROW)


def _confusing(of: Scene) -> Work:
    """Every distinct passage is a query of BM25."""
    asked, depth = _asked(of, upstream(of.node, "spans"))
    passages = min(of.sizes.documents, asked * depth)
    hits = passages * of.params.depth
    disk = asked * depth * of.params.per_passage * ROW
    return Work(passages, "passages", passages * of.sizes.documents, ram=_texts(of, hits) + hits * ROW, disk=disk)


def _train_reader(of: Scene) -> Work:
    """A window of every passage with a label, and confusing ones beside them."""
    params, (asked, labelled) = of.params, _asked(of, upstream(of.node, "spans"))
    if params.objective == "ds_top":
        labelled = min(labelled, params.top_passages)
    read: float = min(labelled, params.instances or labelled)
    if params.objective == "cds" and params.beta > 0:
        read += read * params.confusing_share
    questions, weights = params.epochs * asked, _weights(of)
    amount, flops = (of.again * value for value in _windows(of, questions * read))
    return Work(
        questions,
        "questions",
        amount,
        flops,
        ram=_texts(of, asked * labelled) + 4 * weights,
        disk=weights + _confidences(of, of.node) * ROW,
    )


def _read(of: Scene) -> Work:
    asked, depth = _asked(of, upstream(of.node, "passages"))
    amount, flops = _windows(of, asked * depth)
    ram = _texts(of, asked * depth) + _weights(of)
    return Work(asked * depth, "passages", amount, flops, ram=ram, disk=asked * of.params.n_best * ROW)


def _ensemble(of: Scene) -> Work:
    readings = [node for name, node in of.node.made_from() if name == "readings"]
    asked = sum(_asked(of, upstream(node, "passages"))[0] for node in readings)
    rows = asked * of.params.n_best
    return Work(rows, "answers", rows, ram=rows * ROW, disk=rows * ROW / max(len(readings), 1))


def _score_reading(of: Scene) -> Work:
    asked = sum(_asked(of, node)[0] for name, node in of.node.made_from() if name == "passages")
    return Work(asked, "questions", asked, disk=2 * asked * ROW)


def _score_confidence(of: Scene) -> Work:
    rows = sum(_confidences(of, node) for name, node in of.node.made_from() if name == "confidences")
    return Work(rows, "confidences", rows, ram=rows * ROW)


def _asked(of: Scene, spans: Node | None) -> tuple[int, int]:
    """How many questions a step of `spans` looks at, and how many passages of each."""
    if spans is None:
        return 0, 0
    params: Any = spans.params
    questions, run = of.queries(*params.splits), upstream(spans, "run")
    depth = 1 if run and run.stage == "gold_run" else params.top_k
    return min(questions, params.max_questions or questions), depth


def _confidences(of: Scene, trained: Node) -> int:
    """Rows that a step of `train_reader` writes of its instances: at the start, and after each update."""
    params: Any = trained.params
    if params.objective != "cds":
        return 0
    asked, depth = _asked(of, upstream(trained, "spans"))
    updates: int = params.epochs * params.updates_per_epoch
    return asked * depth * (1 + updates)


def _windows(of: Scene, count: float) -> tuple[float, float]:
    """(amount, flops) of the reader reading windows: at full length, and at the mean one."""
    reader, sizes = _reader(of), of.sizes
    question = min(reader.question_max_len, sizes.query_tokens or reader.question_max_len)
    mean = min(reader.max_len, question + (sizes.document_tokens or reader.max_len))
    shape = encoder_shape(reader.weights, reader.layers)
    return shape.forward(count, reader.max_len), shape.forward(count, mean)


def _weights(of: Scene) -> int:
    """Bytes of the reader."""
    return encoder_shape(_reader(of).weights, _reader(of).layers).parameters * FLOAT


def _reader(of: Scene) -> Any:
    """The settings of the reader before training."""
    found = ancestor(of.node, "init_reader")
    assert found is not None
    return found.params


def _texts(of: Scene, documents: float) -> float:
    """Bytes of so many documents' texts in memory, or of all there are."""
    return min(of.sizes.documents, documents) * of.length * TEXT


READING: Mapping[str, Callable[[Scene], Work]] = {
    "init_reader": _init_reader,
    "gold_run": _given_run,
    "spans": _spans,
    "confusing": _confusing,
    "train_reader": _train_reader,
    "read": _read,
    "ensemble": _ensemble,
    "score_reading": _score_reading,
    "score_confidence": _score_confidence,
}
