"""A training run's whole state in one file, replaced atomically: kill -9 leaves the old one or the new one."""

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from noisyir.errors import StoreError

_FILE = "checkpoint.safetensors"

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
    arriving = folder / f"{_FILE}.arriving"
    save_file(flat, arriving, {"progress": json.dumps(checkpoint.progress)})
    with arriving.open("rb") as handle:
        os.fsync(handle.fileno())
    arriving.replace(folder / _FILE)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The state a killed run left, on the CPU; None when there is none.  StoreError when it is damaged."""
    path = folder / _FILE
    if not path.exists():
        return None
    tensors: dict[str, dict[str, Tensor]] = {}
    try:
        with safe_open(path, "pt") as file:
            for key in file.keys():
                group, name = key.split("/", 1)
                tensors.setdefault(group, {})[name] = file.get_tensor(key)
            return Checkpoint(tensors, json.loads(file.metadata()["progress"]))
    except (SafetensorError, ValueError, KeyError, struct.error) as error:
        raise StoreError(f"damaged checkpoint {path}: {error}. Delete it and run again") from error


@torch.no_grad()
def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give the model the saved value of every parameter; those that two towers share are one."""
    for name, weight in model.named_parameters():
        weight.copy_(saved[name])
