"""Checkpoints of training runs: written atomically, with a digest that finds damage."""

import hashlib
import json
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
from torch import Tensor

from noisyir.training.learner import Tensors, log

CHECKPOINT = "checkpoint.safetensors"
_DIGEST = "digest"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: tensors, and progress that JSON can hold."""

    tensors: Tensors
    progress: Mapping[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the state; the previous one stays valid until the new one is on disk."""
    flat = {
        f"{group}/{name}": value.detach().contiguous()
        for group, named in checkpoint.tensors.items()
        for name, value in named.items()
    }
    arriving = folder / f"{CHECKPOINT}.arriving"
    progress = json.dumps(checkpoint.progress)
    # The digest is a tensor because the order of two metadata entries is random.
    save_file(flat | {_DIGEST: _digest(flat, progress)}, arriving, {"progress": progress})
    with arriving.open("rb") as handle:
        os.fsync(handle.fileno())
    arriving.replace(folder / CHECKPOINT)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Load a killed run's state onto the CPU; None if it is absent or, with a warning, damaged."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            flat = {key: file.get_tensor(key) for key in file.keys()}
            progress = file.metadata()["progress"]
        digest = flat.pop(_DIGEST)
        if not torch.equal(digest, _digest(flat, progress)):
            raise ValueError("it has other bytes than were written")
        tensors: dict[str, dict[str, Tensor]] = {}
        for key, value in flat.items():
            group, name = key.split("/", 1)
            tensors.setdefault(group, {})[name] = value
        return Checkpoint(tensors, json.loads(progress))
    except (SafetensorError, ValueError, KeyError, TypeError, struct.error) as error:
        log.warning("the checkpoint %s is damaged, and training starts again: %s", path, error)
        return None


def _digest(flat: Mapping[str, Tensor], progress: str) -> UInt8[Tensor, "32"]:
    """Hash names, types, shapes and bytes of all tensors, and the progress."""
    total = hashlib.sha256(progress.encode())
    for name in sorted(flat):
        value = flat[name].cpu()
        total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return torch.frombuffer(bytearray(total.digest()), dtype=torch.uint8)
