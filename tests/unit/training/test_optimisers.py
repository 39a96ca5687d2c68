"""The row optimiser against torch's own, and the learning rate in numbers."""

import pytest
import torch
from torch import nn

from noisyir.base.errors import ConfigError
from noisyir.training.optimisers import DenseAdamW, RowAdamW, learning_rate, optimiser_for
from noisyir.training.settings import TrainDprParams
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder

HUGE = 1e9
USUAL = {"weight_decay": 0.0, "betas": (0.9, 0.999)}


def sparse_gradient(seed, *, repeated=False):
    torch_rng = torch.Generator().manual_seed(seed)
    rows = torch.randperm(12, generator=torch_rng)[:5].sort().values
    rows = torch.cat([rows, rows[:2]]) if repeated else rows
    values = torch.randn(len(rows), 3, generator=torch_rng)
    return torch.sparse_coo_tensor(rows[None], values, (12, 3), check_invariants=True)


def start():
    return nn.Parameter(torch.arange(36.0).reshape(12, 3) / 10)


@pytest.mark.parametrize("repeated", [False, True], ids=["rows once", "rows repeated"])
def test_without_clipping_and_decay_it_is_torchs_sparse_adam(repeated):
    ours, theirs = start(), start()
    rows, sparse = RowAdamW([ours], TrainDprParams(clip_norm=HUGE, **USUAL)), torch.optim.SparseAdam([theirs], lr=0.1)
    for step in range(6):
        ours.grad, theirs.grad = sparse_gradient(step, repeated=repeated), sparse_gradient(step, repeated=repeated)
        rows.step(0.1)
        sparse.step()
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"clip_norm": None}, {"betas": (0.8, 0.9)}], ids=str)
def test_where_every_row_is_touched_it_is_adamw(settings):
    row, dense = start(), start()
    settings = TrainDprParams(**{"clip_norm": 1.5, "weight_decay": 0.1} | settings)
    ours, theirs = RowAdamW([row], settings), DenseAdamW([dense], settings)
    for step in range(5):
        gradient = torch.randn(12, 3, generator=torch.Generator().manual_seed(step))
        row.grad, dense.grad = gradient.to_sparse(1), gradient.clone()
        ours.step(0.05)
        theirs.step(0.05)
        torch.testing.assert_close(row, dense, atol=1e-6, rtol=1e-6)


def test_rows_that_no_text_holds_stay_as_they_are():
    weight = start()
    before, gradient = weight.detach().clone(), sparse_gradient(0)
    untouched = sorted(set(range(12)) - set(gradient.coalesce().indices()[0].tolist()))
    weight.grad = gradient
    RowAdamW([weight], TrainDprParams(clip_norm=HUGE, **USUAL | {"weight_decay": 0.1})).step(0.1)
    assert torch.equal(weight[untouched], before[untouched])
    assert weight.grad is None


def test_the_norm_is_taken_over_all_weights_together():
    """The moments after one step show the clipped gradient: first = (1 - beta1) g."""
    weights = [start(), start()]
    optimiser = RowAdamW(weights, TrainDprParams(clip_norm=0.5, **USUAL))
    for seed, weight in enumerate(weights):
        weight.grad = sparse_gradient(seed)
    optimiser.step(0.1)
    total = sum((first / 0.1).pow(2).sum() for first in optimiser.first).sqrt()
    assert total.item() == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("kind", [RowAdamW, DenseAdamW])
def test_betas_decay_the_moments_of_gradients_that_nothing_clips(kind):
    """Two steps by hand: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= rate m' / (sqrt(v') + eps)."""
    weight, (b1, b2) = nn.Parameter(torch.tensor([[0.0]])), (0.8, 0.9)
    optimiser = kind([weight], TrainDprParams(clip_norm=None, weight_decay=0.0, betas=(b1, b2)))
    value = first = second = 0.0
    for step, gradient in enumerate([1e4, -2e4], start=1):
        given = torch.tensor([[gradient]])
        weight.grad = given.to_sparse(1) if kind is RowAdamW else given
        optimiser.step(0.1)
        first, second = b1 * first + (1 - b1) * gradient, b2 * second + (1 - b2) * gradient**2
        value -= 0.1 * (first / (1 - b1**step)) / ((second / (1 - b2**step)) ** 0.5 + 1e-8)
        assert weight.item() == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("backbone", ["static", "transformer"])
def test_the_settings_reach_the_optimiser_of_either_backbone(bert, backbone):
    params = TrainDprParams(betas=(0.8, 0.9), clip_norm=None, weight_decay=0.01)
    optimiser = optimiser_for(tiny_encoder(bert, backbone=backbone), params)
    if isinstance(optimiser, RowAdamW):
        assert (optimiser.betas, optimiser.clip_norm, optimiser.weight_decay) == ((0.8, 0.9), None, 0.01)
    else:
        group = optimiser.adam.param_groups[0]
        assert (group["betas"], optimiser.clip_norm, group["weight_decay"]) == ((0.8, 0.9), None, 0.01)


def test_an_average_that_never_moves_is_an_error(bert):
    with refuses(ConfigError, "training.average_never_moves", betas="[0.9, 1.0]"):
        optimiser_for(tiny_encoder(bert), TrainDprParams(betas=(0.9, 1.0)))


@pytest.mark.parametrize("kind", [RowAdamW, DenseAdamW])
def test_a_restored_optimiser_goes_on_as_if_nothing_had_happened(kind):
    def gradient(step):
        return sparse_gradient(step) if kind is RowAdamW else sparse_gradient(step).to_dense()

    straight = start()
    optimiser = kind([straight], TrainDprParams(clip_norm=1.0, **USUAL | {"weight_decay": 0.01}))
    for step in range(6):
        straight.grad = gradient(step)
        optimiser.step(0.1)
        if step == 2:
            weight, state = (
                nn.Parameter(straight.detach().clone()),
                {k: v.clone() for k, v in optimiser.state().items()},
            )
    again = kind([weight], TrainDprParams(clip_norm=1.0, **USUAL | {"weight_decay": 0.01}))
    again.load(state)
    for step in range(3, 6):
        weight.grad = gradient(step)
        again.step(0.1)
    assert torch.equal(weight, straight)


def test_the_rate_rises_linearly_then_falls_to_nothing_or_stays():
    params = TrainDprParams(learning_rate=1.0, warmup_ratio=0.2, decay="linear")
    assert [learning_rate(step, 10, params) for step in range(10)] == pytest.approx(
        [1 / 2, 2 / 2, 8 / 8, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    )
    kept = params.model_copy(update={"decay": "constant", "warmup_ratio": 0.0})
    assert [learning_rate(step, 4, kept) for step in range(4)] == [1.0] * 4
