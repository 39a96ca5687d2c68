"""The plain objective and its weights."""

import numpy as np
import pytest
import torch

from noisyir.training.batches import assemble
from noisyir.training.learner import Contrastive, Objective, on_device
from noisyir.training.losses.dpr import pair_nll
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import SIZE, toy_pairs

ROWS = np.array([5, 2, 11, 8])


def batch_and_scores(bert):
    encoder = tiny_encoder(bert)
    batch = assemble(toy_pairs(encoder), ROWS, np.array([[6], [3], [5], [1]]))
    queries, passages = encoder.embed_both(batch.queries, batch.passages)
    return batch, (20.0 * queries @ passages.T).detach().requires_grad_()


def test_without_weights_the_loss_is_the_mean_pair_loss(bert):
    batch, scores = batch_and_scores(bert)
    nll = pair_nll(scores, *on_device(batch, scores.device))
    assert Contrastive().loss(batch, scores).item() == pytest.approx(nll.mean().item())


def test_each_pair_counts_by_its_own_weight_whatever_the_sum_of_the_batchs(bert):
    batch, scores = batch_and_scores(bert)
    nll = pair_nll(scores, *on_device(batch, scores.device)).tolist()
    weights = torch.zeros(SIZE)
    weights[ROWS] = torch.tensor([0.5, 0.0, 0.25, 1.0])
    loss = Contrastive(weights).loss(batch, scores)
    assert loss.item() == pytest.approx((0.5 * nll[0] + 0.25 * nll[2] + nll[3]) / 4)
    loss.backward()
    assert not scores.grad[1].any() and scores.grad[[0, 2, 3]].any(dim=1).all()
    assert Contrastive(torch.ones(SIZE)).loss(batch, scores).item() == Contrastive().loss(batch, scores).item()


def test_a_method_must_say_what_its_loss_is(bert):
    with pytest.raises(NotImplementedError):
        Objective().loss(*batch_and_scores(bert))
