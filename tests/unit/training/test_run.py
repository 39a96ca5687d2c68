"""A run of any learner: curves of bounded length, and windows that outlive a kill."""

import numpy as np
import pytest
import torch

from noisyir.training.learner import Learner
from noisyir.training.lists import ListBatches
from noisyir.training.run import TrainingRun
from noisyir.training.settings import TrainDprParams
from tests.unit.training.ar2_world import toy_lists
from tests.unit.training.toy import SIZE, training_context


class Straight(Learner):
    """A weight that is pulled down; its loss is the number of the step."""

    name = "straight"
    stop = -1

    def descend(self, batch, seed):
        if self.done == self.stop:
            raise KeyboardInterrupt
        self.model.weight.sum().backward()
        return {"loss": float(self.done), "twice": 2.0 * self.done}


def straight(work, steps, metric=lambda *_: None, stop=-1):
    context = training_context(work, checkpoint_seconds=1e-9 if steps < 1000 else 1e9, metric=metric)
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    batches = ListBatches(toy_lists(), 1, 10, lambda epoch: np.random.default_rng(epoch))
    settings = TrainDprParams(learning_rate=0.1, clip_norm=None)
    learner = Straight(model, batches, settings, steps, context.rng)
    learner.stop = stop
    return learner, TrainingRun([learner], context)


def test_curves_are_means_over_windows_and_have_400_points_at_most(tmp_path):
    seen = []
    learner, run = straight(tmp_path, 1001, metric=lambda name, value, step: seen.append((name, step)))
    curves = run.run()
    losses = [(step, epoch, value) for name, step, epoch, value in curves if name == "loss"]
    assert len(losses) == 334 and losses[0] == (3, 1.0, 1.0) and losses[1] == (6, 2.0, 4.0)
    assert losses[-1] == (1001, 1001 / 3, (999 + 1000) / 2), "the last window is shorter"
    assert [value for name, _, _, value in curves if name == "twice"] == [2 * value for _, _, value in losses]
    assert len([name for name, _ in seen if name == "straight_lists_per_second"]) == 334
    assert learner.done == 1001 and float(learner.model.weight.detach()) == pytest.approx(-0.1 * 1001 / 2, rel=0.01)


def test_a_window_cut_in_two_by_a_kill_is_one(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    curves = straight(whole, 450)[1].run()
    with pytest.raises(KeyboardInterrupt):
        straight(killed, 450, stop=101)[1].run()
    learner, run = straight(killed, 450)
    assert run.run() == curves and learner.done == 450
    assert [step for name, step, _, _ in curves if name == "loss"] == list(range(2, 451, 2))


def test_each_epoch_shows_every_query_once(tmp_path):
    learner, _ = straight(tmp_path, 6)
    assert learner.batches.an_epoch == 3
    seen = np.concatenate([learner.batches[number].queries for number in range(3, 6)])
    assert sorted(seen) == list(range(SIZE))
