"""AdamW for dense and sparse gradients, behind one interface.

`step` clips the gradients that a backward pass left, moves the weights and drops the gradients; `state` is all that the
next step depends on but the weights.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.adamw import adamw

from noisyir.base.errors import ConfigError
from noisyir.models.static_tower import StaticTower
from noisyir.training.settings import TrainDprParams

EPS = 1e-8


def optimiser_for(model: nn.Module, params: TrainDprParams) -> "DenseAdamW | RowAdamW":
    """Build AdamW over all trainable weights of a transformer, or over the touched rows of a static model.

    Raises:
        ConfigError: If a moving average never moves.
    """
    if max(params.betas) == 1.0:
        raise ConfigError("training.average_never_moves", betas=list(params.betas))
    kind = RowAdamW if any(isinstance(part, StaticTower) for part in model.modules()) else DenseAdamW
    return kind([weight for weight in model.parameters() if weight.requires_grad], params)


def learning_rate(step: int, steps: int, params: TrainDprParams) -> float:
    """Return the rate of step 0..steps - 1: a linear rise over `warmup_ratio` of them, then constant or linear to 0."""
    rising = round(steps * params.warmup_ratio)
    if step < rising:
        return params.learning_rate * (step + 1) / rising
    if params.decay == "constant":
        return params.learning_rate
    return params.learning_rate * (steps - step) / max(1, steps - rising)


class DenseAdamW:
    """torch's AdamW (Loshchilov and Hutter, ICLR 2019), fused on a GPU."""

    def __init__(self, weights: list[nn.Parameter], params: TrainDprParams) -> None:
        self.weights, self.clip_norm = weights, params.clip_norm
        self.fused = weights[0].device.type == "cuda"
        self.adam = torch.optim.AdamW(
            weights, lr=0.0, betas=params.betas, eps=EPS, weight_decay=params.weight_decay, fused=self.fused or None
        )

    def step(self, learning_rate: float) -> None:
        """Clip, move and drop the gradients."""
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.weights, self.clip_norm)
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """Return moments and step count of every weight that has had a gradient."""
        return {
            f"{number}.{name}": value
            for number, weight in enumerate(self.weights)
            for name, value in self.adam.state[weight].items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state`."""
        for key, value in state.items():
            number, name = key.split(".", 1)
            weight = self.weights[int(number)]
            on_cpu = name == "step" and not self.fused
            self.adam.state[weight][name] = value if on_cpu else value.to(weight.device)


class RowAdamW:
    """AdamW over the rows that a batch touched, for sparse gradients of whole rows.

    Untouched rows keep their values and moments, as in torch's SparseAdam.  Bias correction counts steps, not touches,
    and weight decay reaches touched rows only.
    """

    def __init__(self, weights: list[nn.Parameter], params: TrainDprParams) -> None:
        self.weights, self.clip_norm = weights, params.clip_norm
        self.weight_decay, self.betas = params.weight_decay, params.betas
        self.first = [torch.zeros_like(weight) for weight in weights]
        self.second = [torch.zeros_like(weight) for weight in weights]
        self.steps = torch.zeros((), device=weights[0].device)
        # kept, because allocating copies in every step costs as much as the step (page faults)
        self._copies = [weight.new_empty(3, *weight.shape) for weight in weights]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Clip, move the touched rows and drop the gradients."""
        touched = [_whole_rows(weight.grad) for weight in self.weights]
        shrink = self._shrink([values for _, values in touched])
        for number, (rows, values) in enumerate(touched):
            self._move(number, rows, values.mul_(shrink) if shrink < 1.0 else values, learning_rate)
            self.weights[number].grad = None
        self.steps += 1

    def _shrink(self, gradients: list[Float[Tensor, "touched dim"]]) -> float:
        """Return the factor that scales gradients, as in torch.nn.utils.clip_grad_norm_."""
        if self.clip_norm is None:
            return 1.0
        return self.clip_norm / (float(torch.stack([values.norm() for values in gradients]).norm()) + 1e-6)

    def _move(
        self, number: int, rows: Int[Tensor, " touched"], gradient: Float[Tensor, "touched dim"], learning_rate: float
    ) -> None:
        """Run torch's AdamW kernel on copies of the rows, then write them back."""
        whole = self.weights[number].data, self.first[number], self.second[number]
        weight, first, second = (copy[: len(rows)] for copy in self._copies[number])
        pairs = list(zip(whole, (weight, first, second), strict=True))
        for tensor, copy in pairs:
            torch.index_select(tensor, 0, rows, out=copy)
        adamw(
            [weight], [gradient], [first], [second], [], [self.steps.clone()],  # the kernel counts the step itself
            fused=True, amsgrad=False, maximize=False, beta1=self.betas[0], beta2=self.betas[1], eps=EPS,
            lr=learning_rate, weight_decay=self.weight_decay,
        )  # fmt: skip
        for tensor, copy in pairs:
            put_rows(tensor, rows, copy)

    def state(self) -> dict[str, Tensor]:
        """Return both moments of every weight, and the step count."""
        moments = {f"first.{i}": value for i, value in enumerate(self.first)}
        moments |= {f"second.{i}": value for i, value in enumerate(self.second)}
        return moments | {"steps": self.steps}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state`."""
        self.steps.copy_(state["steps"])
        for name, tensors in (("first", self.first), ("second", self.second)):
            for number, tensor in enumerate(tensors):
                tensor.copy_(state[f"{name}.{number}"])


def put_rows(table: Tensor, rows: Int[Tensor, " touched"], values: Float[Tensor, "touched dim"]) -> None:
    """Set table[rows] = values in place; on a CPU by numpy, which copies rows whole and is faster."""
    if table.device.type == "cpu":
        table.numpy()[rows.numpy()] = values.numpy()
    else:
        table.index_copy_(0, rows, values)


def _whole_rows(gradient: Tensor | None) -> tuple[Int[Tensor, " touched"], Float[Tensor, "touched dim"]]:
    """Return the rows of a sparse gradient, each once, and their values.

    Autograd forgets that a gradient was coalesced; ascending rows show it at a fraction of the cost.
    """
    assert gradient is not None, "every tower has a part in every batch"
    rows = gradient._indices()[0]
    if not bool((rows[1:] > rows[:-1]).all()):
        gradient = gradient.coalesce()
        rows = gradient.indices()[0]
    return rows, gradient._values()
