"""How much passes through a model at once: a given number, or as much as fits into a GPU's memory.

`auto` measures a few of the longest texts, assumes memory in proportion to their number, and keeps a margin; a step
that runs out of memory is repeated with half as many.  Without a GPU a step takes all at once, and inference the
default number of tokens.
"""

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import nn

from noisyir.base.errors import ConfigError

Auto = Literal["auto"]

DEFAULT_TOKENS = 32768  # of one inference batch, where memory is not measured
_CPU_TOKENS = 4096  # of a transformer on a CPU: a layer's output of more does not fit into the caches
_MOST_TOKENS = 1 << 20  # more at once is no faster
_MARGIN = 0.8  # of the free memory: the allocator's blocks never fill it
_PROBE = 8  # units that are measured
_COPIES = 3  # of every weight that training adds: its gradient and AdamW's two moments
# glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: blocks up to its maximum are reused instead of given back at once.
_REUSE = (-3, 32 << 20), (-1, (1 << 31) - 1)
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # a config has one of them
# With torch's random numbers dropout equals the uncompiled model's, and gradient caching can replay it.
_OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {"fallback_random": True}


def units_that_fit(free: int, spent: int, units: int, most: int) -> int:
    """Return how many units fit into `free` bytes if `units` of them take `spent`, 1 to `most`."""
    return min(max(int(_MARGIN * free * units / max(spent, 1)), 1), most)


class AtOnce:
    """The number of items that pass through a model at once in training; `size` None: a whole step's.

    `most` is a whole step's number.  `again` is false for one of several processes: a repeated step would
    desynchronise them.
    """

    def __init__(self, wanted: int | Auto | None, most: int, *, again: bool = True) -> None:
        self.auto, self.most, self.again = wanted == "auto", most, again
        self.size = None if wanted == "auto" else wanted

    def fit(self, model: nn.Module, probe: Callable[[int], None]) -> None:
        """With auto, on a GPU, choose the size by `probe(units)`, a forward and backward pass of the longest units."""
        device = next(model.parameters()).device
        if not self.auto or device.type != "cuda":
            return
        units = min(_PROBE, self.most)
        training = model.training
        try:
            model.train()
            spent = _measured(lambda: probe(units), device)
        except torch.OutOfMemoryError:
            spent = None
        finally:
            model.train(training).zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        if spent is None:
            self.size = max(1, units // 2)
            return
        weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
        found = units_that_fit(_free(device) - _COPIES * weights, spent, units, self.most)
        self.size = None if found == self.most else found

    @property
    def can_shrink(self) -> bool:
        """Whether a step that ran out of memory may be repeated with fewer at once."""
        return self.auto and self.again and self.size != 1 and self.most != 1

    def shrink(self) -> int:
        """Halve the size.  Call it after the error is handled, because its trace holds activations."""
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.size = max(1, (self.size or self.most) // 2)
        return self.size


def inference_tokens(
    wanted: int | Auto | None,
    device: torch.device | None = None,
    longest: int = 1,
    read: Callable[[int], None] | None = None,
) -> int:
    """Return the tokens of one inference batch: the wanted number; with auto on a GPU what fits, else the default.

    device: A transformer's device; None for static models, which cost the same at any size.
    read: Passes a number of texts of `longest` tokens through the model.
    """
    if isinstance(wanted, int):
        return wanted
    if device is not None and device.type == "cpu":
        return _CPU_TOKENS
    if wanted is None or device is None or device.type != "cuda" or read is None:
        return DEFAULT_TOKENS
    with torch.inference_mode():
        spent = _measured(lambda: read(_PROBE), device)
    torch.cuda.empty_cache()
    return longest * units_that_fit(_free(device), spent, _PROBE, max(1, _MOST_TOKENS // longest))


def _measured(pass_through: Callable[[], None], device: torch.device) -> int:
    """Measure the peak bytes of GPU memory that a pass adds."""
    pass_through()  # allocates gradients, kernels and their workspaces
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    pass_through()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _free(device: torch.device) -> int:
    """Return the bytes that can still be allocated: the driver's, and torch's unused ones."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def keep_fewer_activations(transformers: Iterable[Any]) -> None:
    """Let Hugging Face models recompute activations in the backward pass; the gradient is the same."""
    from noisyir.models import lean_linear

    for model in transformers:
        lean_linear.restore_linear(model)  # its inputs would be kept from the first pass
        # the second name is transformers 4's
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})


def tune_for_training(
    transformers: Iterable[Any], device: torch.device, precision: Literal["fp32", "bf16"], *, compiled: bool = False
) -> None:
    """On a CPU, prepare this thread and Hugging Face models for training.

    Dropout, attention with it, and linear layers that are not compiled are the lean ones.  Attention without dropout is
    two products and a softmax in bf16, because torch's fused one is slow backwards there.  Numbers below 1e-38 count as
    0, because products with them are several times slower.  Freed memory stays with the process until its stage ends.
    """
    if device.type != "cpu":
        return
    torch.set_flush_denormal(True)  # threads that compute for this one inherit it
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        for setting, value in _REUSE:
            mallopt(setting, value)
    for model in transformers:
        _make_lean(model, precision, compiled=compiled)


def _make_lean(model: Any, precision: Literal["fp32", "bf16"], *, compiled: bool) -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    from noisyir.models import lean_dropout, lean_linear

    AttentionInterface.register(lean_dropout.NAME, lean_dropout.attend)
    AttentionMaskInterface.register(lean_dropout.NAME, sdpa_mask)
    lean_dropout.replace_dropout(model)
    if not compiled:
        lean_linear.replace_linear(model)
    rates = (getattr(model.config, name, 0.0) for name in _ATTENTION_DROPOUT)
    if precision == "bf16" and not any(rates):
        model.set_attn_implementation("eager")
    elif model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(lean_dropout.NAME)


def compile_in_place(transformers: Iterable[Any], device: torch.device) -> None:
    """Let torch compile Hugging Face models at their first call; weights keep their names, copies are not compiled.

    Raises:
        ConfigError: If this machine has no compiler.
    """
    models = list(transformers)
    if models:
        _refuse_without_compiler(device)
    for model in models:
        model.compile(dynamic=True, options=_OPTIONS)


def _refuse_without_compiler(device: torch.device) -> None:
    """Compile something small, because torch would miss the compiler only in the first step."""
    try:
        torch.compile(_add_one, dynamic=True, options=_OPTIONS)(torch.zeros(2, device=device))
    except (RuntimeError, ImportError, OSError) as error:
        wanted = "Triton (pip install triton)" if device.type == "cuda" else "a C++ compiler (g++, or CXX set to one)"
        raise ConfigError("models.cannot_compile", error=str(error).strip().splitlines()[0], wanted=wanted) from error


def _add_one(values: torch.Tensor) -> torch.Tensor:
    return values + 1
