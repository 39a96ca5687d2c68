"""Kinds of noise and of hiding: each takes its own settings and no others, and the usual one needs no name."""

import numpy as np
import pytest

from noisyir import experiments
from noisyir.data.hiding import Hiding
from noisyir.data.hiding.near_duplicates import NearDuplicates
from noisyir.data.hiding.positives import Positives
from noisyir.data.noise import ChosenPairs, Noise
from noisyir.data.noise.group import Group
from noisyir.data.noise.neighbour import Neighbour
from noisyir.data.noise.uniform import Uniform
from noisyir.errors import ConfigError


def test_a_rate_alone_is_of_the_usual_kind():
    assert Noise.parse({"rate": 0.4}) == Uniform(rate=0.4) and Hiding.parse({"rate": 1}) == Positives(rate=1)
    assert experiments.from_settings({"name": "x"}, ["noise.rate=0.4"]).noise == Uniform(rate=0.4)
    given = experiments.load("demo", ["noise.rate=0.5", "noise.kind=neighbour", "noise.neighbours=3"]).noise
    assert given == Neighbour(rate=0.5, neighbours=3)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("noise={neighbours: 3}", r"unknown key noise\.neighbours; .*is a setting of neighbour, not of uniform"),
        ("noise={kind: neighbour, group_rate: 1}", "group_rate is a setting of group, not of neighbour"),
        ("noise.kind=unifrom", r"noise: there is no 'unifrom' \(did you mean uniform\?\); there are group, neighbour"),
        ("hide.copies=3", "copies is a setting of near_duplicates, not of positives"),
        ("hide.kind=near_duplicate", r"hide: there is no 'near_duplicate' \(did you mean near_duplicates\?\)"),
    ],
)
def test_what_does_not_belong_is_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        experiments.load("demo", [override])


def test_keys_hold_what_differs_from_the_defaults():
    assert Uniform(rate=0.5).key_values() == {"kind": "uniform/1", "rate": 0.5}
    assert Group(rate=0.5, group_rate=0.8).key_values() == {"kind": "group/1", "rate": 0.5}
    assert NearDuplicates(copies=2).key_values() == {"kind": "near_duplicates/1", "copies": 2}


def test_every_kind_gives_each_chosen_pair_a_wrong_document():
    rng, source = np.random.default_rng(0), np.arange(40) % 4
    for kind in Noise.variants():
        noise = Noise.parse({"kind": kind, "rate": 0.5})
        rows = noise.choose(source, rng)
        known = np.stack([np.arange(40), np.arange(40)], axis=1)
        vectors = rng.random((40, 3), np.float32)
        given = ChosenPairs(
            query=rows,
            document=rows,
            known=known,
            is_relevant=lambda query, _: np.zeros(len(query), bool),
            texts=[f"text {number}" for number in range(40)],
            vectors=lambda vectors=vectors: vectors,
        )
        wrong = noise.replace(given, rng)
        assert len(rows) == len(wrong) == 20 and (wrong != rows).all() and (wrong < 40).all()
