"""What changes how transformers compute, and not what: fewer activations kept, and compiled kernels."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch

from noisyir.errors import ConfigError

# With torch's own random numbers dropout is that of the model that is not compiled, and gradient caching replays it.
_OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {"fallback_random": True}


def keep_fewer_activations(transformers: Iterable[Any]) -> None:
    """Let Hugging Face models compute their activations anew in the backward pass; the gradient is the same."""
    for model in transformers:
        # the second name is that of transformers 4
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})


def attend_plainly(transformers: Iterable[Any], device: torch.device, precision: Literal["fp32", "bf16"]) -> None:
    """On a CPU in bf16, attention as two products and a softmax: torch's fused one has a slow backward pass there."""
    if device.type == "cpu" and precision == "bf16":
        for model in transformers:
            model.set_attn_implementation("eager")


def compile_in_place(transformers: Iterable[Any], device: torch.device) -> None:
    """Have torch compile Hugging Face models when they are first called; their weights keep their names.

    A copy of a compiled model is not compiled.  ConfigError where this machine has nothing to compile with.
    """
    models = list(transformers)
    if models:
        _refuse_without_compiler(device)
    for model in models:
        model.compile(dynamic=True, options=_OPTIONS)


def _refuse_without_compiler(device: torch.device) -> None:
    """Compile something small: torch would find the compiler missing only in the first step."""
    try:
        torch.compile(_add_one, dynamic=True, options=_OPTIONS)(torch.zeros(2, device=device))
    except (RuntimeError, ImportError, OSError) as error:
        wanted = "Triton (pip install triton)" if device.type == "cuda" else "a C++ compiler (g++, or CXX set to one)"
        raise ConfigError(
            f"runtime.compile=true does not work here: {str(error).strip().splitlines()[0]}. It needs {wanted} and "
            "Python's headers; or set runtime.compile=false"
        ) from error


def _add_one(values: torch.Tensor) -> torch.Tensor:
    return values + 1
