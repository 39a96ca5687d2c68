"""Linear layers for training on a CPU that keep no input which is quickly computed again for the gradient.

Such inputs are the outputs of layer norms, GELU and SiLU, more than a third of the numbers that a BERT's layer keeps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

_QUICK = "LayerNorm", "GELU", "GELUActivation", "SiLU", "SiLUActivation"  # each keeps its own input anyway


class Again(NamedTuple):
    """How an output is computed again: by a module, of its input, in the shape that was kept.

    `version` is the output's; one that was changed in place is kept.
    """

    module: Callable[[Tensor], Tensor]
    given: Tensor
    version: int
    shape: tuple[int, ...] = ()


class Linear(nn.Linear):
    """Multiplies as torch's does."""

    def forward(self, given: Tensor) -> Tensor:
        """Multiply; an output that names its module is computed again in the backward pass."""
        with saved_tensors_hooks(_packed, _unpacked):
            return super().forward(given)


def replace_linear(model: nn.Module) -> None:
    """Let a model's linear layers be the one of this module, and let outputs of quick modules name them."""
    for part in model.modules():
        if type(part) is nn.Linear:
            part.__class__ = Linear
        elif type(part).__name__ in _QUICK:
            part.register_forward_hook(_name_module)


def restore_linear(model: nn.Module) -> None:
    """Let a model's linear layers be torch's again."""
    for part in model.modules():
        if type(part) is Linear:
            part.__class__ = nn.Linear  # type: ignore[assignment]


def _name_module(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
    if output.requires_grad:
        output.again = Again(module.forward, given[0].detach(), output._version)  # type: ignore[attr-defined]


def _packed(kept: Tensor) -> Tensor | Again:
    whole = kept if kept._base is None else kept._base
    again: Again | None = getattr(whole, "again", None)
    if again is None or again.version != whole._version or whole.numel() != kept.numel():
        return kept
    return again._replace(shape=tuple(kept.shape))


def _unpacked(kept: Tensor | Again) -> Tensor:
    return kept if isinstance(kept, Tensor) else kept.module(kept.given).view(kept.shape)
