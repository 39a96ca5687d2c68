"""The teacher by rows is the one that moves whole at every step."""

import numpy as np
import pytest
import torch

from noisyir.methods.npc.objective import MovingAverage, RowAverage, average_of
from noisyir.training.batches import assemble
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import toy_pairs


def batches(encoder, steps, rng):
    pairs = toy_pairs(encoder)
    for _ in range(steps):
        yield assemble(pairs, rng.choice(len(pairs), 3, replace=False), np.empty((3, 0), np.int64))


@torch.no_grad()
def step(encoder, batch, rng):
    """As an optimiser that moves the rows of the batch's tokens and no others."""
    towers = ((encoder.query_tower, batch.queries), (encoder.passage_tower, batch.passages))
    for tower, tokens in towers:
        rows = np.unique(tokens.ids)
        tower.weight[rows] += torch.from_numpy(rng.normal(size=(len(rows), tower.dim))).float()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.9, 0.999, 1.0])
def test_rows_that_wait_arrive_where_those_do_that_move_at_every_step(bert, shared, decay):
    encoder, rng = tiny_encoder(bert, shared=shared), np.random.default_rng(0)
    first = encoder.passage_tower.weight.detach().clone()
    by_row, all_of_it = average_of(encoder, decay), MovingAverage(encoder, decay)
    assert isinstance(by_row, RowAverage)
    touched = np.zeros(len(first), bool)
    for number, batch in enumerate(batches(encoder, 40, rng)):
        read = by_row.reader_of(batch).embed_both(batch.queries, batch.passages)
        for mine, eager in zip(read, all_of_it.teacher.embed_both(batch.queries, batch.passages), strict=True):
            torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-5)
        step(encoder, batch, rng)
        touched[np.concatenate([batch.queries.ids, batch.passages.ids])] = True
        by_row.follow()
        all_of_it.follow()
        if number == 25:  # a run that was cut off goes on with what the checkpoint holds
            state, by_row = by_row.state(), average_of(encoder, decay)
            by_row.load(state)
    for mine, eager in zip(by_row.whole().parameters(), all_of_it.whole().parameters(), strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-5)
    assert torch.equal(by_row.teacher.passage_tower.weight[~touched], first[~touched])


def test_a_transformers_weights_all_move(bert):
    assert type(average_of(tiny_encoder(bert, backbone="transformer"), 0.9)) is MovingAverage
