"""Invariants of the DPR loss and of an epoch's batches."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from noisyir.models.text_tokenizer import Tokens
from noisyir.training.batches import PairBatches, Ragged, TrainingPairs
from noisyir.training.losses.dpr import masked_log_probs, pair_nll

ROWS, COLUMNS = 4, 7
scores = arrays.arrays(np.float32, (ROWS, COLUMNS), elements=st.floats(-30, 30, width=32)).map(torch.from_numpy)
positives = arrays.arrays(np.int64, ROWS, elements=st.integers(0, COLUMNS - 1)).map(torch.from_numpy)
masks = arrays.arrays(np.bool_, (ROWS, COLUMNS)).map(torch.from_numpy)


def keep_positive(mask, positive):
    mask = mask.clone()
    mask[torch.arange(ROWS), positive] = False
    return mask


@given(scores, positives, masks, st.floats(-20, 20, width=32))
def test_the_loss_is_never_negative_and_ignores_a_common_shift(score, positive, mask, shift):
    ignored = keep_positive(mask, positive)
    loss = pair_nll(score, positive, ignored)
    assert (loss >= 0).all()
    torch.testing.assert_close(pair_nll(score + shift, positive, ignored), loss, atol=1e-4, rtol=1e-4)


@given(scores, positives, masks)
def test_probabilities_of_the_passages_that_count_sum_to_one(score, positive, mask):
    log_probs = masked_log_probs(score, keep_positive(mask, positive))
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(ROWS), atol=1e-5, rtol=1e-5)


@given(scores, positives, masks, scores)
def test_scores_of_ignored_passages_have_no_effect(score, positive, mask, other):
    ignored = keep_positive(mask, positive)
    changed = torch.where(ignored, other, score)
    assert torch.equal(pair_nll(changed, positive, ignored), pair_nll(score, positive, ignored))


@given(scores, positives, masks)
def test_ignoring_more_passages_never_raises_the_loss(score, positive, mask):
    whole = pair_nll(score, positive, torch.zeros_like(mask))
    assert (pair_nll(score, positive, keep_positive(mask, positive)) <= whole + 1e-5).all()


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 3), st.integers(0, 2**32))
def test_an_epoch_holds_every_pair_once_in_batches_of_nearly_equal_size(pairs, batch_size, hard, seed):
    rows = np.arange(pairs)
    one_token_each = Tokens(rows.astype(np.int32), np.arange(pairs + 1))
    nothing = Ragged.grouped(rows[:0], rows[:0], pairs)
    data = TrainingPairs(rows, rows, rows, Ragged.grouped(rows, rows, pairs), nothing, one_token_each, one_token_each)
    epoch = PairBatches(data, batch_size, hard, lambda number: np.random.default_rng([seed, number]))
    batches = [epoch[number] for number in range(epoch.an_epoch)]
    assert sorted(np.concatenate([batch.queries.ids for batch in batches])) == rows.tolist()
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    for batch in batches:
        np.testing.assert_array_equal(batch.passages.ids[batch.positive], batch.queries.ids)
        assert batch.ignored.shape == (len(batch), len(batch) * (1 + hard))
