"""A toy game of AR2: query i and its passage share a word of their own, and its negatives are its neighbours'.

A round of it may kill its very process, as kill -9 does, at a given step of one model.
"""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import load_file, save_file

from noisyir.methods.ar2.rounds import Material, train_round
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.ranker import Ranker, initial_ranker
from noisyir.models.settings import InitRankerParams
from noisyir.training.batches import Ragged
from noisyir.training.checkpoint import Checkpoint
from noisyir.training.lists import Lists
from noisyir.training.run import Point
from noisyir.training.settings import TrainAr2Params
from tests.tiny_models import WORDS, tiny_encoder
from tests.unit.training.toy import SIZE, Metric, toy_held, toy_texts, training_context

SETTINGS = {
    "rounds": 2, "ranker_steps": 5, "retriever_steps": 6, "n": 3, "ranker_batch_size": 6, "retriever_batch_size": 7,
    "ranker_learning_rate": 1e-3, "retriever_learning_rate": 1e-3, "scale": 5.0,
}  # fmt: skip
NOBODY = Ragged.grouped(np.arange(0), np.arange(0), SIZE)


def toy_lists(negatives: int = 4) -> Lists:
    """Lists of every query, the last of which has no mined negative."""
    queries, passages = toy_texts()
    rows = np.arange(SIZE)
    keys = np.repeat(rows[:-1], negatives)
    mined = (keys + 1 + np.tile(np.arange(negatives), SIZE - 1)) % SIZE
    own = Ragged.grouped(rows, rows, SIZE)
    read = (pa.array(texts, pa.large_string()) for texts in (queries, passages))
    return Lists(*read, own, Ragged.grouped(keys, mined, SIZE), rows, own, NOBODY)


def marked_lists() -> Lists:
    """Lists whose right passages all hold one word, and whose negatives another."""
    rows = np.arange(SIZE)
    own, other = Ragged.grouped(rows, rows, SIZE), np.concatenate([rows, (rows + 1) % SIZE, (rows + 2) % SIZE])
    passages = [f"w{50 if row < SIZE else 51} w{row % SIZE}" for row in range(2 * SIZE)]
    read = (pa.array(texts, pa.large_string()) for texts in (toy_texts()[0], passages))
    return Lists(*read, own, Ragged.grouped(np.tile(rows, 3), SIZE + other, SIZE), rows, own, NOBODY)


def toy_ranker(bert: Path, **params: object) -> Ranker:
    """A ranker of one layer."""
    return initial_ranker(bert, InitRankerParams(**{"layers": 1, "max_len": 24, **params}), seed=3)[0]


def shuffled_vocabulary(bert: Path, folder: Path) -> Path:
    """The same encoder with its words numbered the other way round."""
    folder.mkdir()
    for path in bert.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tokenizer = json.loads((bert / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, last = vocabulary[WORDS[0]], vocabulary[WORDS[-1]]
    tokenizer["model"]["vocab"] = {
        token: first + last - number if token in WORDS else number for token, number in vocabulary.items()
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    weights = load_file(bert / "model.safetensors")
    (name,) = (name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][first : last + 1] = weights[name][first : last + 1].flip(0).clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def material(encoder: BiEncoder, lists: Lists | None = None) -> Material:
    lists = lists or toy_lists()
    texts = (
        encoder.tokenize(lists.queries.to_pylist(), "query"),
        encoder.tokenize(lists.passages.to_pylist(), "passage"),
    )
    return Material(lists, *texts, toy_held(encoder))


def play(
    bert: Path,
    work: Path,
    backbone: str = "transformer",
    *,
    encoder: BiEncoder | None = None,
    ranker: Ranker | None = None,
    earlier: Checkpoint | None = None,
    die_at: tuple[str, int] | None = None,
    lists: Lists | None = None,
    **settings: object,
) -> tuple[BiEncoder, Ranker, list[Point], Checkpoint, list[tuple[str, int]]]:
    """One round: both models, the curves, the state, and the (loss, step) that this process took."""
    torch.set_num_threads(1)
    encoder = encoder or tiny_encoder(bert, backbone=backbone, layers=1)
    ranker = ranker or toy_ranker(bert)
    taken: list[tuple[str, int]] = []

    def metric(name: str, value: float, step: int) -> None:
        if name in ("ranker_loss", "retriever_loss"):
            taken.append((name.removesuffix("_loss"), step))
            if taken[-1] == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    watched: Metric = metric
    context = training_context(work, checkpoint_seconds=1e-9, metric=watched)
    params = TrainAr2Params(**{**SETTINGS, **settings})
    curves, state = train_round(encoder, ranker, material(encoder, lists), params, context, earlier)
    return encoder, ranker, curves, state, taken
