"""Kinds of noise and of hiding: each takes its own settings and no others, and the usual one needs no name."""

import numpy as np
import pytest

from noisyir.base.errors import ConfigError
from noisyir.corruption.hiding import Hiding, NearDuplicates, Positives
from noisyir.corruption.kinds import Corruption
from noisyir.corruption.kinds.other_documents import AnyDocument, Group, Neighbour
from noisyir.methods import experiments
from tests.training_pairs import training_pairs


def test_a_rate_alone_is_of_the_usual_kind():
    assert Corruption.parse({"rate": 0.4}) == AnyDocument(rate=0.4) and Hiding.parse({"rate": 1}) == Positives(rate=1)
    assert experiments.from_settings({"name": "x"}, ["noise.rate=0.4"]).noise == AnyDocument(rate=0.4)
    given = experiments.load("demo", ["noise.rate=0.5", "noise.kind=neighbour", "noise.neighbours=3"]).noise
    assert given == Neighbour(rate=0.5, neighbours=3)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("noise={neighbours: 3}", r"unknown key noise\.neighbours; .*is a setting of neighbour, not of uniform"),
        ("noise={kind: neighbour, group_rate: 1}", "group_rate is a setting of group, not of neighbour"),
        (
            "noise.kind=unifrom",
            r"noise: there is no 'unifrom' \(did you mean uniform\?\); there are absent, confusable, group, ",
        ),
        ("hide.copies=3", "copies is a setting of near_duplicates, not of positives"),
        ("hide.kind=near_duplicate", r"hide: there is no 'near_duplicate' \(did you mean near_duplicates\?\)"),
    ],
)
def test_what_does_not_belong_is_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        experiments.load("demo", [override])


def test_keys_hold_what_differs_from_the_defaults():
    assert AnyDocument(rate=0.5).key_values() == {"kind": "uniform/1", "rate": 0.5}
    assert Group(rate=0.5, group_rate=0.8).key_values() == {"kind": "group/1", "rate": 0.5}
    assert NearDuplicates(copies=2).key_values() == {"kind": "near_duplicates/1", "copies": 2}


def test_every_kind_gives_its_share_of_the_pairs_a_wrong_document(tmp_path):
    vectors = np.random.default_rng(0).random((40, 3), np.float32)
    given = training_pairs(
        range(40),
        range(40),
        [f"we met Anna{number} and {number + 10} cats" for number in range(40)],
        source=np.arange(40) % 4,
        questions=[f"cats {number}" for number in range(40)],
        vectors=vectors,
        work=tmp_path,
    )
    for kind in Corruption.variants():
        spoilt = Corruption.parse({"kind": kind, "rate": 0.5}).spoil(given)
        assert len(spoilt.rows) == 20
        if len(spoilt.texts):
            assert len(spoilt.texts) == 20 and not set(spoilt.texts) & set(given.texts)
        else:
            assert (spoilt.documents != spoilt.rows).all() and (spoilt.documents < 40).all()
        changes = len(spoilt.texts) > 0 or spoilt.leaving is not None
        assert Corruption.of_kind(kind).changes_corpus == changes, kind
