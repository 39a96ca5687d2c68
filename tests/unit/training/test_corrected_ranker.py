"""The ranker by noisy pair correction: doubted lists are left to a teacher, which follows and is not forgotten."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noisyir.training.batches import Ragged
from noisyir.training.lists import ListBatch
from noisyir.training.ranker import CorrectedRankerLearner, RankerLearner
from noisyir.training.settings import TrainAr2Params
from tests.unit.training.ar2_world import SETTINGS, toy_lists, toy_ranker
from tests.unit.training.toy import SIZE, training_context

DOUBTED = np.array([0, 9])
LISTS = replace(toy_lists(), doubted=Ragged.grouped(DOUBTED, DOUBTED, SIZE))
BATCH = ListBatch(np.array([0, 5, 9, 5]), np.array([[0, 1, 2, 3], [5, 6, 7, 2], [9, 10, 11, 3], [5, 1, 2, 3]]))


@pytest.fixture
def learner(bert, tmp_path):
    """`learner(kind)`: one that has not learnt yet, without dropout."""

    def make(kind=CorrectedRankerLearner):
        torch.set_num_threads(1)
        ranker = toy_ranker(bert)
        for part in ranker.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        params = TrainAr2Params(**{**SETTINGS, "flagged": "soft", "teacher_decay": 0.75})
        return kind(ranker, LISTS, params, training_context(tmp_path).rng, batch_size=6, learning_rate=1e-2, steps=10)

    return make


def gradients(learner, batch):
    learner.ranker.zero_grad(set_to_none=True)
    learner.descend(batch, 0)
    return {name: weight.grad.clone() for name, weight in learner.ranker.named_parameters() if weight.grad is not None}


def test_a_list_is_doubted_by_its_right_passage():
    assert LISTS.is_clean(BATCH).tolist() == [False, True, False, True]


def test_while_teacher_and_ranker_agree_only_lists_beyond_doubt_pull(learner):
    corrected, plain = learner(), learner(RankerLearner)
    for tensor in gradients(corrected, BATCH.take(np.array([0, 2]))).values():
        torch.testing.assert_close(tensor, torch.zeros_like(tensor), rtol=0, atol=1e-6)
    found, expected = gradients(corrected, BATCH), gradients(plain, BATCH.take(np.array([1, 3])))
    assert max(float(tensor.abs().max()) for tensor in expected.values()) > 1e-3
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor / 2, rtol=1e-4, atol=1e-6)


def test_where_they_differ_doubted_lists_pull_towards_the_teacher(learner):
    corrected = learner()
    with torch.no_grad():
        for weight in corrected.teacher.parameters():
            weight.add_(torch.full_like(weight, 0.05).cumsum(0) % 0.1)
    assert max(float(tensor.abs().max()) for tensor in gradients(corrected, BATCH.take(np.array([0, 2]))).values()) > 0


def test_the_teacher_follows_and_has_no_gradient(learner):
    corrected = learner()
    before = [weight.clone() for weight in corrected.teacher.parameters()]
    corrected.step()
    for old, slow, fast in zip(before, corrected.teacher.parameters(), corrected.ranker.parameters(), strict=True):
        torch.testing.assert_close(slow, 0.75 * old + 0.25 * fast, rtol=1e-5, atol=1e-7)
        assert slow.grad is None


def test_it_goes_on_from_its_state_to_the_same_bits(learner):
    whole, first, second = learner(), learner(), learner()
    for _ in range(4):
        whole.step()
    for _ in range(2):
        first.step()
    second.load(first.state(), 2)
    for _ in range(2):
        second.step()
    for one, other in ((whole.ranker, second.ranker), (whole.teacher, second.teacher)):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
