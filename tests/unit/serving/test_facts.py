"""The rate of wrong pairs as /info says it: with an interval once a random sample was judged, else null."""

from dataclasses import asdict

import pytest

from noisyir.audits.by_hand import ByHand
from noisyir.engine.meta import Meta
from noisyir.serving.facts import rate_of


def audit(**notes) -> Meta:
    return Meta("audit", 7, "k", "b", {}, 0, {}, {}, 0.0, "now", notes, None, {})


def test_a_judged_sample_gives_a_rate_with_its_interval():
    made = ByHand(50, 2, 0.9, 40, (0.2, 0.1, 0.3), 0.9, 0.5, True, 9, 8, ())
    said = rate_of(audit(judgements=asdict(made)))
    assert said == {"rate": 0.2, "low": 0.1, "high": 0.3, "confidence": 0.9, "judged": 50, "sampled": 40}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "are not audited"),
        (audit(), "no random sample of the pairs was judged"),
        (audit(judgements={"judged": 9, "sampled": 0, "interval": None, "confidence": 0.9}), "no random sample"),
    ],
)
def test_without_one_it_is_null_and_says_why(found, reason):
    said = rate_of(found)
    assert said["rate"] is None and reason in said["reason"]
