"""loss_section: histograms of the losses that pairs were flagged by."""

import re

import numpy as np
import pytest

from noisyir.data.artifacts import NOISE_TRUTH
from noisyir.detection.artifacts import PAIR_SCORES
from noisyir.detection.settings import NpcDetectParams
from noisyir.evaluation.pages.pair_losses import epochs_shown
from noisyir.evaluation.settings import LossSectionParams
from noisyir.evaluation.stages.loss_section import LOSS_SECTION
from noisyir.training.artifacts import NOISE_FLAGS
from tests.world import table

RIGHT, WRONG = 60, 40
IDS = [(f"q{n}", f"d{n}") for n in range(RIGHT + WRONG)]


def test_the_epochs_shown_are_evenly_spread_from_the_first_to_the_last():
    assert epochs_shown([1, 2, 3, 4, 5, 6, 7], 4) == [1, 3, 5, 7]
    assert epochs_shown([3, 9], 4) == [3, 9] and epochs_shown([5], 4) == [5] and epochs_shown([], 4) == []


@pytest.fixture
def section(run_stage_on):
    """`section(epochs, put_in=True, **params)`: the section's rows; wrong pairs lie at 5 nats, right ones at 1."""
    rng = np.random.default_rng(0)
    losses = np.concatenate([rng.normal(1, 0.2, RIGHT), rng.normal(5, 0.3, WRONG)])

    def run(epochs, *, put_in=True, **params):
        scores = [
            (*pair, epoch, losses[n], [5.0], None, None, None, None) for epoch in epochs for n, pair in enumerate(IDS)
        ]
        flags = [(*pair, epoch, losses[n], 0.5, losses[n] < 4, None) for epoch in epochs for n, pair in enumerate(IDS)][
            ::-1
        ]  # in another order than the scores
        truth = [(*pair, pair[1], put_in and n >= RIGHT, "uniform") for n, pair in enumerate(IDS)]
        given = {
            "scores": {"npc": table(PAIR_SCORES, scores)},
            "flags": {"npc": table(NOISE_FLAGS, flags)},
            "truth": {"npc": table(NOISE_TRUTH, truth)},
        }
        settings = LossSectionParams(detection={"npc": NpcDetectParams(components="two")}, **params)
        return run_stage_on(LOSS_SECTION, settings, given)["sections"].to_pylist()

    return run


def counted(svg, kind):
    """Pairs of a kind, by the heights of the bars against the grid."""
    return len(re.findall(rf'class="bin {kind}"', svg))


def test_each_detection_has_bars_by_the_truth_both_components_and_the_border(section):
    (row,) = section([1, 2, 3], shown=2)
    pictures = re.findall(r"<svg class=\"chart histogram\".*?</svg>", row["html"])
    assert row["name"] == "losses" and len(pictures) == 2
    assert "npc, after 1 epoch " in row["html"] and "npc, after 3 epochs" in row["html"]
    for svg in pictures:
        assert svg.count('class="component clean"') == svg.count('class="component noisy"') == 1
        assert svg.count('class="limit"') == 1 and counted(svg, "clean") and counted(svg, "wrong")
        assert "60 not flagged and 40 flagged" in svg
    ids = re.findall(r'id="(hatch[\w-]*)"', row["html"])
    assert len(ids) == len(set(ids)) == 2


def test_without_a_truth_the_flagged_pairs_are_hatched(section):
    (row,) = section([1], put_in=False)
    assert "40.0 % flagged; hatched: the flagged pairs" in row["html"] and counted(row["html"], "wrong")


def test_without_a_detection_there_is_no_section(section):
    assert section([]) == []
