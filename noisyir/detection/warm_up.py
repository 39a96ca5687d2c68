"""When the warm-up of noisy pair correction is over: by evidence, not by one epoch of whatever size.

A model that has taken a dozen steps judges pairs by what it was before, and what it then leaves out it never learns.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray

QUICK = 0.1  # relative fall of the loss, from one third of an epoch to the next, above which it still falls quickly
POWER = 0.8  # of made-up pairs, the share that a detector must flag for its flags to be believed


def loss_fall(losses: Float[Array, " step"], an_epoch: int, least_steps: int) -> float:
    """How much the loss falls from the middle third of an epoch to its last, relative to the former.

    fall = 1 - mean(l_t : t in the last thirds) / mean(l_t : t in the middle thirds), over as many of the last epochs
    as have `least_steps` steps.  Every pair comes once an epoch, so that these losses are of pairs from which the model
    has not learnt since the epoch before: within an epoch memory does not lower them, as it does from one to the next.

    losses: of all steps so far, in nats; whole epochs of `an_epoch` steps.  0 where an epoch is too short for thirds.
    """
    third, epochs = an_epoch // 3, min(math.ceil(least_steps / an_epoch), len(losses) // an_epoch)
    if not third or not epochs:
        return 0.0
    recent = losses[-epochs * an_epoch :].reshape(epochs, an_epoch)
    middle, last = recent[:, -2 * third : -third].mean(), recent[:, -third:].mean()
    return float(1 - last / middle) if middle > 0 else 0.0


def detector_power(
    score: Float[Array, " pair"], is_clean: Bool[Array, " pair"], made_up: Float[Array, " null"]
) -> float:
    """The share of made-up pairs that would be flagged as the observed ones are: those above every clean pair's score.

    0 where nothing is flagged, or everything: then the detector tells nothing apart.
    """
    if is_clean.all() or not is_clean.any():
        return 0.0
    return float((made_up > score[is_clean].max()).mean())


def is_over(losses: Float[Array, " step"], an_epoch: int, least_steps: int) -> bool:
    """Whether enough steps were taken and the loss no longer falls quickly."""
    return len(losses) >= least_steps and loss_fall(losses, an_epoch, least_steps) <= QUICK
