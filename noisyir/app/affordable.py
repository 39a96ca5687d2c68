"""The models that a run has time for on this machine, timed on the data's own texts."""

import json
import math
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from noisyir.base.durations import seconds_of
from noisyir.base.errors import ConfigError
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.passages import cut
from noisyir.data.records import Document, Documents
from noisyir.data.settings import READ_WHOLE
from noisyir.engine.remote.fetched import located
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.rules import MANY, rule_for
from noisyir.models.backends import quickest
from noisyir.models.weights import MINILM

if TYPE_CHECKING:
    from noisyir.retrieval.encode import Encoder

DEFAULT = "10m"
STATIC_PAIRS = 5_000  # per second: pairs a static model reads and trains on, per core
_AROUND = 30.0  # seconds per run for reading data, BM25, evaluation and tracking
FROZEN, MOST_KEPT = 4, 20_000  # layers of the packaged transformer, and documents: 130 KB of disk each
_LAYERS = 6
_READ, _TIMED = 4096, 32  # documents read from the start of the data, and the number of them that are encoded
CHUNK = MappingProxyType({"words": READ_WHOLE, "overlap": 30})
_LONG = 3  # passages of the average document, from which on models would leave most of it unread


class Afforded(NamedTuple):
    """Models of a run: the trained one, models as they are, and the reason for each.

    `weighs`: Whether there is time to train a transformer again, with suspicious pairs weighted down.
    `why_chunk`: The reason for cutting documents into passages; empty if they are not cut.
    """

    backbone: Literal["static", "transformer"]
    why: str
    as_is: dict[str, dict[str, Any]]
    why_as_is: str
    train: Mapping[str, Any] = MappingProxyType({})
    weighs: bool = False
    why_chunk: str = ""

    @property
    def chunk(self) -> dict[str, int]:
        """How documents are cut into passages; empty if they are not."""
        return dict(CHUNK) if self.why_chunk else {}

    @property
    def settings(self) -> list[str]:
        """The same as settings of an experiment."""
        settings = [f"model.backbone={self.backbone}", f"as_is={json.dumps(self.as_is)}"]
        settings += [f"train.{name}={json.dumps(value)}" for name, value in self.train.items()]
        return settings + [f"chunk.{name}={value}" for name, value in self.chunk.items()]


class TimedDocuments(NamedTuple):
    """The packaged transformer on this machine, the number of documents, and passages in the average one.

    `encoding` and `forward` are seconds a text, by the quickest backend and by torch, which trains.
    """

    encoding: float
    forward: float
    device: str
    documents: int
    passages: float = 1.0

    @property
    def why_chunk(self) -> str:
        """The reason for cutting documents into passages; empty for documents that models read."""
        if self.passages < _LONG:
            return ""
        return (
            f"{CHUNK['words']} words: the average document has {self.passages:.0f} such passages, and models read one"
        )

    @property
    def texts(self) -> int:
        """The number of texts to encode."""
        return round(self.documents * self.passages) if self.why_chunk else self.documents


def afforded(exp: Experiment, budget: str | None) -> Afforded:
    """Return the models that fit into the budget, by default DEFAULT.

    Raises:
        ConfigError: If a given budget is too small for any model.
    """
    seconds, pairs = seconds_of(budget or DEFAULT, "--budget"), exp.data.summary().pairs
    static = run_seconds(pairs, exp.train.epochs, 1 / STATIC_PAIRS)
    if budget and static > seconds:
        enough = math.ceil(static / 10) * 10
        raise ConfigError("app.budget_too_small", budget=budget, pairs=pairs, static=static, ceil=enough)
    if (timed := time_documents(exp.data)) is None:
        return Afforded(
            "static", "static: there is no document to time a transformer on", {}, "none: there is no document"
        )
    on, why_chunk = f"on this {timed.device}", timed.why_chunk
    encoding = timed.texts * timed.encoding
    if static + encoding > seconds:
        why = f"none: encoding takes about {_minutes(encoding)} {on} ({_with(static + encoding)} has it compared)"
        as_is: dict[str, dict[str, Any]] = {}
    else:
        backend, precision = quickest(timed.device)
        how = {} if backend == "torch" else {"backend": backend, "precision": precision}
        as_is, why = {MINILM: how}, f"{MINILM}: encoding takes about {_minutes(encoding)} {on}"
    epochs = rule_for("transformer", pairs).epochs
    trained = run_seconds(pairs, epochs, timed.forward)
    upper_alone = timed.device == "CPU" and timed.texts <= MOST_KEPT
    if upper_alone:
        trained = upper_seconds(pairs, timed.texts, epochs, timed.forward)
    trained += static - _AROUND  # the static model is trained, too
    if trained > seconds:
        takes = f"training a transformer takes about {_minutes(trained)} {on}"
        return Afforded("static", f"static: {takes} ({_with(trained)} does it)", as_is, why, why_chunk=why_chunk)
    twice = 2 * trained  # pairs are scored in about the time in which the lower layers are computed
    weighs = twice <= seconds and not exp.data.has_weights
    takes = f"transformer: about {_minutes(twice if weighs else trained)} {on}, and {budget or DEFAULT} may be taken"
    if upper_alone:
        takes += f"; its upper layers learn, and the lower {FROZEN} are computed once"
    if not weighs and not exp.data.has_weights:
        takes += f" ({_with(twice)} also weighs suspicious pairs down)"
    train = {"freeze": FROZEN, "keep_states": True} if upper_alone else {}
    return Afforded("transformer", takes, as_is, why, train, weighs, why_chunk)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{math.ceil(seconds)} s"


def _with(seconds: float) -> str:
    return f"--budget {math.ceil(seconds / 60)}m"


def run_seconds(pairs: int, epochs: int, of_pair: float) -> float:
    """Estimate the duration of a run in seconds.

    Training reads each pair forward and, at twice the cost, backward; dev queries are ranked after every epoch; the
    collection is encoded for the untrained and the trained model.

    Args:
        of_pair: Seconds to encode a query and its document once.
    """
    return _AROUND + pairs * of_pair * (3 * epochs + epochs + 2)


def upper_seconds(pairs: int, documents: int, epochs: int, of_pair: float) -> float:
    """As `run_seconds`, if the outputs of the lower layers are kept: all texts pass through these once."""
    upper = 1 - FROZEN / _LAYERS
    once = max(pairs, documents) * of_pair * (1 - upper)
    return _AROUND + once + pairs * of_pair * upper * (3 * epochs + epochs + 2)


def time_documents(data: Format) -> TimedDocuments | None:
    """Time the packaged transformer, by its quickest backend, on some of the first documents; None if there is none."""
    if not (texts := _first_texts(data)):
        return None
    some = texts[:: math.ceil(len(texts) / _TIMED)]
    model, quick, device = _encoders()
    forward = _seconds(model, some)
    encoding = forward if quick is model else _seconds(quick, some)
    passages = sum(len(cut(text, **CHUNK)) for text in some) / len(some)
    return TimedDocuments(encoding, forward, device, _count(data, texts), passages)


@cache
def _encoders() -> "tuple[Encoder, Encoder, str]":
    """Return the packaged transformer by torch and by the quickest backend, and its device."""
    import torch

    from noisyir.models.bi_encoder import choose_device, initial_bi_encoder
    from noisyir.models.openvino_encoder import OpenVinoEncoder
    from noisyir.models.settings import InitModelParams
    from noisyir.models.weights import locate_weights

    device, params = choose_device("auto"), InitModelParams(backbone="transformer")
    model = initial_bi_encoder(locate_weights(params.weights, "model.weights"), params).to(device).eval()
    name = "GPU" if device.startswith("cuda") else "CPU"
    backend, precision = quickest(name)
    if backend == "torch":
        return model, model, name
    return model, OpenVinoEncoder(model, precision=precision, threads=torch.get_num_threads()), name


def _seconds(encoder: "Encoder", texts: list[str]) -> float:
    """Return the seconds per text of the fastest of three rounds, after a warm-up."""
    from noisyir.retrieval.encode import embed_all

    tokens, taken = encoder.tokenize(texts, "passage"), list[float]()
    for _ in range(4):
        began = time.perf_counter()
        embed_all(encoder, tokens, "passage", 4096)
        taken.append(time.perf_counter() - began)
    return min(taken[1:]) / len(texts)


def _first_texts(data: Format) -> list[str]:
    """Return the first documents' titles and texts."""
    from noisyir.models.text_tokenizer import passage_text

    texts: list[str] = []
    for record in located(data).open().records():
        if isinstance(record, Document):
            texts.append(passage_text(record.title, record.text))
        elif isinstance(record, Documents):
            rows = record.table.slice(0, _READ)
            texts += map(passage_text, rows["title"].to_pylist(), rows["text"].to_pylist())
        if len(texts) >= _READ:
            break
    return texts[:_READ]


def _count(data: Format, texts: list[str]) -> int:
    """Return the number of documents: the pairs of a file, else an estimate by sizes of files and texts."""
    if len(texts) < _READ:
        return len(texts)
    pairs = data.summary().pairs
    if isinstance(data, Pairs) and data.corpus is None and pairs < MANY:
        return pairs
    places = [Path(place) for name in data.locations() if (place := getattr(located(data), name))]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    letters = sum(len(text.encode()) for text in texts) / len(texts)
    return max(len(texts), round(sum(file.stat().st_size for file in files) / letters))
