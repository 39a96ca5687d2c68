"""A toy of reading: the answer is the one word of a passage from w50 to w57; its training may die at a step."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from noisyir.readers.artifacts import CONFUSING, SPANS
from noisyir.readers.instances import Instances, training_instances
from noisyir.readers.learning import Confidences, train_reader
from noisyir.readers.model import Reader, initial_reader
from noisyir.readers.settings import InitReaderParams, TrainReaderParams
from noisyir.training.run import Point
from tests.unit.training.toy import training_context
from tests.world import pairs_world, table

QUESTIONS = 12


def passage(number: int) -> str:
    """Ten words; those of a number that 4 divides hold no answer, the others hold that of question number // 4."""
    words = [f"w{word}" for word in np.random.default_rng(number).integers(0, 40, 10)]
    if number % 4:
        words[number % 10] = f"w{50 + number // 4 % 8}"
    if number % 4 == 3:
        words.append(words[number % 10])  # the answer a second time
    return " ".join(words)


def world() -> dict[str, pa.Table]:
    """Spans, queries, corpus and confusing passages of 12 questions with 3 instance passages each, of 4 instances."""
    texts = {f"d{number:02}": passage(number) for number in range(4 * QUESTIONS)}
    spans, confusing = [], []
    for number, (doc_id, text) in enumerate(texts.items()):
        query_id, answer = f"q{number // 4:02}", f"w{50 + number // 4 % 8}"
        places = [place for place in range(len(text)) if text.startswith(answer, place)]
        spans += [(query_id, doc_id, at, at + len(answer), answer, 1.0 + number % 4) for at in places]
        if places:
            confusing += [
                (query_id, doc_id, f"d{4 * ((number // 4 + shift) % QUESTIONS):02}", shift + 1, 1.0)
                for shift in range(5)
            ]
    asked = {f"q{i:02}": f"w{40 + i % 9} w{i}" for i in range(QUESTIONS)}
    more = {"spans": table(SPANS, spans), "confusing": table(CONFUSING, confusing)}
    return pairs_world("queries corpus", asked, texts) | more


def tiny_reader(bert: Path, max_len: int = 32) -> Reader:
    return initial_reader(bert, InitReaderParams(layers=1, max_len=max_len, question_max_len=4), seed=0)[0]


def toy_instances(reader: Reader) -> Instances:
    tables = world()
    texts = dict(zip(tables["corpus"]["doc_id"].to_pylist(), tables["corpus"]["text"].to_pylist(), strict=True))
    return training_instances(reader.tokenizer, tables["spans"], tables["queries"], texts, tables["confusing"])[0]


PARAMS = {
    "epochs": 4, "batch_size": 5, "learning_rate": 0.01, "warmup_ratio": 0.0, "instances": 3, "updates_per_epoch": 2,
    "confidence": "soft",
}  # fmt: skip


def train(
    bert: Path, work: Path, *, die_at: int | None = None, **changes: object
) -> tuple[Reader, list[Point], Confidences, list[int]]:
    """The reader, its curves and confidences, and the steps that this process took."""
    torch.set_num_threads(1)
    reader = tiny_reader(bert)
    taken: list[int] = []

    def metric(name: str, value: float, step: int) -> None:
        if name == "reader_loss":
            taken.append(step)
            if step == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    context = training_context(work, checkpoint_seconds=1e-9 if die_at or not changes else 1e9, metric=metric)
    params = TrainReaderParams.model_validate({**PARAMS, **changes})
    curves, confidences = train_reader(reader, toy_instances(reader), params, context)
    return reader, curves, confidences, taken
