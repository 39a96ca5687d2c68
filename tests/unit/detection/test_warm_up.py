"""When noisy pair correction begins: by the loss within epochs, and by the detector's power."""

import numpy as np
import pytest

from noisyir.methods.npc.objective import detector_power, is_over, loss_fall


def test_the_fall_is_from_the_middle_third_to_the_last_of_the_last_epochs():
    epochs = np.array([[9, 9, 6, 6, 5, 5], [4, 4, 3, 3, 1.5, 1.5]])
    assert loss_fall(epochs.ravel(), 6, 6) == pytest.approx(1 - 1.5 / 3)
    assert loss_fall(epochs.ravel(), 6, 7) == pytest.approx(1 - (5 + 1.5) / (6 + 3)), "two epochs have seven steps"
    assert loss_fall(epochs.ravel(), 6, 600) == pytest.approx(1 - (5 + 1.5) / (6 + 3)), "there are no more"


def test_a_drop_between_epochs_is_memory_and_no_fall():
    assert loss_fall(np.repeat([8.0, 4.0, 2.0, 1.0], 9), 9, 20) == 0.0


def test_a_loss_that_rises_or_vanishes_does_not_fall():
    assert loss_fall(np.linspace(1, 2, 9), 9, 9) < 0
    assert loss_fall(np.zeros(9), 9, 9) == 0.0
    assert loss_fall(np.ones(4), 2, 4) == 0.0, "an epoch of two steps has no thirds"


@pytest.mark.parametrize(
    ("losses", "an_epoch", "over"),
    [
        (np.full(60, 2.0), 60, False),  # too few steps
        (np.full(64, 2.0), 64, True),
        (np.full(64, 2.0), 16, True),
        (np.linspace(4, 1, 90), 90, False),
        (np.tile(np.linspace(4, 1, 12), 6), 12, False),  # each epoch of a dozen steps still falls quickly
        (np.tile(np.linspace(2, 1.9, 12), 6), 12, True),
    ],
)
def test_the_warm_up_is_over_after_enough_steps_once_the_loss_falls_slowly(losses, an_epoch, over):
    assert is_over(losses, an_epoch, 64) is over


def test_power_is_the_share_of_made_up_pairs_above_every_clean_one():
    score, is_clean = np.array([1.0, 2.0, 3.0, 8.0]), np.array([True, True, True, False])
    assert detector_power(score, is_clean, np.array([2.5, 3.0, 4.0, 9.0])) == 0.5
    assert detector_power(score, np.ones(4, bool), np.array([9.0])) == 0.0
    assert detector_power(score, np.zeros(4, bool), np.array([9.0])) == 0.0
