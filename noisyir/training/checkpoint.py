"""A training run's whole state in one file, replaced atomically: kill -9 leaves the old one or the new one."""

import hashlib
import json
import logging
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

log = logging.getLogger("noisyir")

CHECKPOINT = "checkpoint.safetensors"
_DIGEST = "digest"

Tensors = Mapping[str, Mapping[str, Tensor]]
"""Tensors by group, as a model or its optimiser, and name."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run; progress: what JSON can hold."""

    tensors: Tensors
    progress: Mapping[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the state; the previous one is valid until the new one is on the disk."""
    flat = {
        f"{group}/{name}": value.detach().contiguous()
        for group, named in checkpoint.tensors.items()
        for name, value in named.items()
    }
    arriving = folder / f"{CHECKPOINT}.arriving"
    progress = json.dumps(checkpoint.progress)
    # The digest is a tensor, for a second entry of metadata would stand before or after the first by chance.
    save_file(flat | {_DIGEST: _digest(flat, progress)}, arriving, {"progress": progress})
    with arriving.open("rb") as handle:
        os.fsync(handle.fileno())
    arriving.replace(folder / CHECKPOINT)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The state a killed run left, on the CPU; None when there is none, or a damaged one, which is told of."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            flat = {key: file.get_tensor(key) for key in file.keys()}
            progress = file.metadata()["progress"]
        digest = flat.pop(_DIGEST, None)  # those of before 0.3 have none
        if digest is not None and not torch.equal(digest, _digest(flat, progress)):
            raise ValueError("it has other bytes than were written")
        tensors: dict[str, dict[str, Tensor]] = {}
        for key, value in flat.items():
            group, name = key.split("/", 1)
            tensors.setdefault(group, {})[name] = value
        return Checkpoint(tensors, json.loads(progress))
    except (SafetensorError, ValueError, KeyError, TypeError, struct.error) as error:
        log.warning("the checkpoint %s is damaged, and training starts anew: %s", path, error)
        return None


def _digest(flat: Mapping[str, Tensor], progress: str) -> UInt8[Tensor, "32"]:
    """One sha256 over the state: names, types, shapes and bytes of all tensors, and the progress."""
    total = hashlib.sha256(progress.encode())
    for name in sorted(flat):
        value = flat[name].cpu()
        total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return torch.frombuffer(bytearray(total.digest()), dtype=torch.uint8)


@torch.no_grad()
def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give the model the saved value of every parameter; those that two towers share are one."""
    for name, weight in model.named_parameters():
        weight.copy_(saved[name])
