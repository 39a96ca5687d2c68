"""Model folders of which a file is damaged, lacking, or says what cannot be."""

import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from noisyir.models.bi_encoder import initial_bi_encoder, load_bi_encoder
from noisyir.models.cross_encoder import load_cross_encoder
from noisyir.models.ranker import initial_ranker, load_ranker
from noisyir.models.settings import InitModelParams, InitRankerParams
from noisyir.models.transformer_tower import quietly
from noisyir.models.weights import encoder_digest, locate_weights, weights_digest
from noisyir.readers.model import initial_reader, load_reader
from noisyir.readers.settings import InitReaderParams
from tests.chaos.malformed.data import Damage, instead, raw
from tests.chaos.malformed.trial import Make, Read, Trial, folder_until_the_end
from tests.tiny_models import static_encoder, tiny_bert, tiny_classifier


def trials(draw: random.Random) -> Iterator[Trial]:
    """Every damage to every file, before training starts from the folder and where a saved model is opened."""
    for kind, (_, reads) in KINDS.items():
        for how, read in reads.items():
            for file, changes in _changes(kind, how).items():
                for name, change in changes.items():
                    place = file if file.endswith(".json") and name in (*JSON, *_NO_JSON) else "model"
                    yield Trial(f"{kind} {how} {file}: {name}", _damaged(kind, read, file, change), place)


def _damaged(kind: str, read: Callable[[Path], object], file: str, change: Damage) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        model = Path(shutil.copytree(_sound(kind), folder / "model"))
        change(model / file, draw)
        return lambda: read(model)

    return make


@cache
def _sound(kind: str) -> Path:
    """A model of this kind, made once for all trials: the first time is before any of them is forked."""
    folder = folder_until_the_end("sound") / kind
    KINDS[kind][0](folder)
    return folder


def make_sound() -> None:
    """Make each kind of model once, and read it: what libraries load for that is loaded before trials are forked."""
    with quietly():
        for kind, (_, reads) in KINDS.items():
            for read in reads.values():
                read(_sound(kind))


def _start(folder: Path) -> None:
    backbone = "static" if (folder / "noisyir.json").exists() else "transformer"
    params = InitModelParams(weights=str(folder), backbone=backbone, query_max_len=12, passage_max_len=16)
    weights_digest(params)
    initial_bi_encoder(locate_weights(str(folder)), params)


def _start_ranker(folder: Path) -> None:
    encoder_digest(str(folder), "ranker.init.weights")
    initial_ranker(folder, InitRankerParams(weights=str(folder), max_len=16), 0)


def _start_reader(folder: Path) -> None:
    encoder_digest(str(folder), "reader.init.weights")
    initial_reader(folder, InitReaderParams(weights=str(folder), max_len=32, question_max_len=8), 0)


def _save_static(folder: Path) -> None:
    static_encoder(torch.eye(20)).save(folder)


def _save_ranker(folder: Path) -> None:
    tiny_classifier(folder)
    (folder / "ranker.json").write_text('{"max_len": 16}')


def _save_reader(folder: Path) -> None:
    bert = tiny_bert(folder.with_name("bert"))
    initial_reader(bert, InitReaderParams(weights=str(bert), max_len=32, question_max_len=8), 0)[0].save(folder)


KINDS: dict[str, tuple[Callable[[Path], object], dict[str, Callable[[Path], object]]]] = {
    "static": (_save_static, {"start": _start, "open": load_bi_encoder}),
    "bert": (tiny_bert, {"start": _start, "start of a ranker": _start_ranker, "start of a reader": _start_reader}),
    "ranker": (_save_ranker, {"open": load_ranker, "judge": lambda folder: load_cross_encoder(folder, 16)}),
    "reader": (_save_reader, {"open": load_reader}),
}


# What is wrong ---------------------------------------------------------------------------------------------------


def _json(**values: object) -> Damage:
    return raw(lambda data, draw: json.dumps({**json.loads(data), **values}).encode())


def _without(name: str) -> Damage:
    return raw(lambda data, draw: json.dumps({k: v for k, v in json.loads(data).items() if k != name}).encode())


def _tensors(change: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    """Another tensor in place of the largest."""

    def damage(path: Path, draw: random.Random) -> None:
        found = load_file(path)
        name = max(found, key=lambda one: found[one].numel())
        save_file({**found, name: change(found[name]).contiguous()}, path, {"format": "pt"})

    return damage


def _header(text: bytes) -> Damage:
    return raw(lambda data, draw: struct.pack("<Q", len(text)) + text + b"\0" * 64)


ANY: dict[str, Damage] = {
    "emptied": raw(lambda data, draw: b""),
    "gone": instead(lambda path: None),
    "cut off": raw(lambda data, draw: data[: draw.randrange(1, max(2, len(data) - 3))]),
    "random bytes": raw(lambda data, draw: draw.randbytes(2000)),
    "a folder": instead(Path.mkdir),
    "a pipe": instead(os.mkfifo),
}
JSON: dict[str, Damage] = {
    "an array": raw(lambda data, draw: b"[1, 2]"),
    "a number": raw(lambda data, draw: b"3"),
    "deep": raw(lambda data, draw: b"[" * 100_000),
    "5,000 digits": raw(lambda data, draw: b'{"max_len": ' + b"9" * 5000 + b"}"),
    "UTF-16": raw(lambda data, draw: data.decode().encode("utf-16")),
}
_NO_JSON = ("emptied", "cut off", "random bytes")
WEIGHTS: dict[str, Damage] = {
    "NaN": _tensors(lambda tensor: tensor * torch.nan),
    "infinite": _tensors(lambda tensor: tensor + torch.inf),
    "fewer rows": _tensors(lambda tensor: tensor[:3]),
    "no rows": _tensors(lambda tensor: tensor[:0]),
    "one dimension": _tensors(lambda tensor: tensor.reshape(-1)),
    "three dimensions": _tensors(lambda tensor: tensor[None]),
    "whole numbers": _tensors(lambda tensor: tensor.int()),
    "complex numbers": _tensors(lambda tensor: tensor.to(torch.complex64)),
    "a header of 2**62": raw(lambda data, draw: struct.pack("<Q", 1 << 62) + data[8:]),
    "a header of words": _header(b"not JSON"),
    "no tensors": _header(b"{}"),
    "offsets beyond": _header(b'{"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 99999]}}'),
    "an unknown type": _header(b'{"x": {"dtype": "Q7", "shape": [1], "data_offsets": [0, 4]}}'),
    "a shape of 2**60": _header(b'{"x": {"dtype": "F32", "shape": [1152921504606846976], "data_offsets": [0, 4]}}'),
    "other names": _header(b'{"x": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}}'),
}
CONFIG: dict[str, Damage] = {
    "an unknown type of model": _json(model_type="bertt"),
    "no type of model": _without("model_type"),
    "heads that do not divide": _json(num_attention_heads=3),
    "a width of 10**7": _json(hidden_size=10**7),
    "a width in words": _json(hidden_size="wide"),
    "a width below zero": _json(hidden_size=-32),
    "another width": _json(hidden_size=64),
    "words by the billion": _json(vocab_size=10**10),
    "layers in words": _json(num_hidden_layers="two"),
    "layers beyond": _json(num_hidden_layers=7),
    "no positions": _json(max_position_embeddings=0),
    "an unknown activation": _json(hidden_act="gelu_older"),
}
TOKENIZER: dict[str, Damage] = {
    "no model": _without("model"),
    "an unknown model": _json(model={"type": "WordPeace", "vocab": {}}),
    "a vocabulary of texts": _json(model={"type": "WordLevel", "vocab": {"a": "one"}, "unk_token": "a"}),
    "numbers beyond the rows": _json(model={"type": "WordLevel", "vocab": {"a": 10**6}, "unk_token": "a"}),
    "an unknown normalizer": _json(normalizer={"type": "Nothing"}),
}
_OURS: dict[str, Damage] = {
    "a length below zero": _json(passage_max_len=-1),
    "a length in words": _json(passage_max_len="long"),
    "an unknown backbone": _json(backbone="statik"),
    "a setting more": _json(more=1),
    "a setting less": _without("pooling"),
    "an unknown similarity": _json(similarity="cosign"),
    "a prefix that is a number": _json(query_prefix=3),
}
_OWN_LENGTH: dict[str, Damage] = {"a length in words": _json(max_len="long"), "a length below zero": _json(max_len=-5),
                                  "no length": _without("max_len")}  # fmt: skip


def _changes(kind: str, how: str) -> dict[str, dict[str, Damage]]:
    """What can be wrong with each file that is read."""
    found = {"model.safetensors": {**ANY, **WEIGHTS}, "tokenizer.json": {**ANY, **JSON, **TOKENIZER}}
    if kind == "static":
        found |= {
            "noisyir.json": {**{name: ANY[name] for name in ("emptied", "cut off", "random bytes")}, **JSON, **_OURS}
        }
    else:
        found |= {"config.json": {**ANY, **JSON, **CONFIG}}
    if how == "open" and kind in ("ranker", "reader"):
        found |= {f"{kind}.json": {**ANY, **JSON, **_OWN_LENGTH}}
    return found
