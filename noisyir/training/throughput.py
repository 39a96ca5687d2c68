"""Training throughput: tokens and pairs a second, and the model's FLOPs as a share of a GPU's peak.

FLOPs are the model's own (Chowdhery et al., 2022, PaLM, appendix B): recomputation counts once; padding,
embedding look-ups, the loss and the optimiser do not count.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.static_tower import StaticTower
from noisyir.models.text_tokenizer import Rows, Tokens
from noisyir.training.distributed import world

# Dense bf16 tensor-core FLOP/s, by a pattern of the device's name; the first match counts.
# Source: NVIDIA's data sheets, halved if they state it with sparsity.
_PEAKS = (
    (r"H200 NVL|H100 NVL", 835.5e12),
    (r"H100 PCIe", 756e12),
    (r"H100|H200|GH200", 989.4e12),
    (r"A100", 312e12),
    (r"A30", 165e12),
    (r"A40", 149.7e12),
    (r"A10", 125e12),
    (r"L4", 121e12),
    (r"L40S", 362e12),
)


@dataclass(frozen=True)
class TransformerSize:
    """Sizes that determine a transformer's FLOPs; `weights` excludes the embeddings."""

    weights: int
    layers: int
    hidden: int


@dataclass(frozen=True)
class Work:
    """Work done: trained pairs (or lists, questions), unpadded tokens read in training, and the models' FLOPs."""

    pairs: int = 0
    tokens: int = 0
    flops: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.pairs + other.pairs, self.tokens + other.tokens, self.flops + other.flops)


def transformer_flops(lengths: Int[np.ndarray, " text"], size: TransformerSize, *, backward: bool = True) -> float:
    """FLOPs of texts of these lengths: the sum over texts of s (6 N + 12 L H s), a third of it forward alone.

    2 N a token for the weights' products, 4 L H s for attention, twice as many backwards.
    Source: Kaplan et al., 2020, table 1; Chowdhery et al., 2022, appendix B.
    """
    tokens, squares = float(lengths.sum()), float((lengths.astype(np.float64) ** 2).sum())
    forward = 2 * size.weights * tokens + 4 * size.layers * size.hidden * squares
    return forward * (3 if backward else 1)


def static_flops(tokens: int, dim: int) -> float:
    """FLOPs of a static tower: 2 `dim` a distinct token of a text for its weighted sum, and as many backwards."""
    return 4.0 * tokens * dim


def peak_flops(device: str) -> float | None:
    """Dense bf16 FLOP/s of a GPU by its CUDA name; None if unknown or a MIG slice."""
    if "MIG" in device:
        return None
    return next((peak for pattern, peak in _PEAKS if re.search(rf"\b({pattern})\b", device)), None)


def transformer_size(model: nn.Module) -> TransformerSize:
    """Measure a Hugging Face encoder with its head."""
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    embedded = {id(weight) for table in tables for weight in table.parameters()}
    weights = sum(weight.numel() for weight in model.parameters() if id(weight) not in embedded)
    config: Any = model.config
    return TransformerSize(weights, config.num_hidden_layers, config.hidden_size)


def encoding(encoder: BiEncoder) -> Callable[[Tokens, Tokens], Work]:
    """Return a function that counts the work of a step on queries and passages, forward and backward."""
    sizes: list[int | TransformerSize] = [
        tower.dim if isinstance(tower, StaticTower) else transformer_size(tower.encoder)
        for tower in (encoder.query_tower, encoder.passage_tower)
    ]

    def work(queries: Tokens, passages: Tokens) -> Work:
        read = (queries, passages)
        flops = sum(
            static_flops(len(texts.ids), size) if isinstance(size, int) else transformer_flops(texts.lengths, size)
            for texts, size in zip(read, sizes, strict=True)
        )
        return Work(len(queries), sum(len(texts.ids) for texts in read), flops)

    return work


class Judging(Protocol):
    """A model that reads text pairs; `lengths`: tokens of each pair of the last call."""

    model: Any
    lengths: Rows


def judging(model: Judging) -> Callable[[bool], Work]:
    """Return a function that counts the model's last call, over all processes, with or without the backward pass.

    Pairs that a ranker only judges for the retriever count as FLOPs but not as tokens.
    """
    size, processes = transformer_size(model.model), world().size  # which have alike to read

    def work(backward: bool) -> Work:
        flops = transformer_flops(model.lengths, size, backward=backward) * processes
        return Work(tokens=int(model.lengths.sum()) * processes if backward else 0, flops=flops)

    return work


class Meter:
    """Sums work and seconds; `peak` is the device's FLOP/s, if known, and `unit` names the pairs."""

    def __init__(self, peak: float | None, unit: str = "pairs", clock: Callable[[], float] = time.monotonic) -> None:
        self.peak, self.unit, self.clock = peak, unit, clock
        self._work, self._seconds = Work(), 0.0
        self._all, self._all_seconds = Work(), 0.0
        self._since = clock()

    @classmethod
    def of(cls, device: torch.device, unit: str = "pairs") -> "Meter":
        """Build a meter of a device, or of all processes' devices."""
        peak = peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
        return cls(peak and peak * world().size, unit)

    def restart(self) -> None:
        """Exclude the time since the last work: it was no training."""
        self._since = self.clock()

    def add(self, work: Work) -> None:
        """Add the work done since the last call or `restart`."""
        now = self.clock()
        self._work, self._seconds, self._since = self._work + work, self._seconds + now - self._since, now

    def rates(self) -> dict[str, float]:
        """Return the rates since the last call, by metric."""
        work, seconds = self._work, self._seconds
        self._all, self._all_seconds = self._all + work, self._all_seconds + seconds
        self._work, self._seconds = Work(), 0.0
        return rates(work, seconds, self.peak, self.unit)

    def means(self) -> dict[str, float]:
        """Return the rates over all work, by metric."""
        return rates(self._all + self._work, self._all_seconds + self._seconds, self.peak, self.unit)


def rates(work: Work, seconds: float, peak: float | None, unit: str = "pairs") -> dict[str, float]:
    """Return pairs and tokens a second and, if the peak is known, the share of it that is used."""
    seconds = max(seconds, 1e-9)
    found = {f"{unit}_per_second": work.pairs / seconds, "tokens_per_second": work.tokens / seconds}
    return found if peak is None else found | {"flop_utilisation": work.flops / seconds / peak}
