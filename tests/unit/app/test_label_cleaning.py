"""When an audit may change training pairs: the refusals, and that what they advise is enough."""

import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.label_cleaning import refuse_too_much, refuse_unjudged
from noisyir.audits.apply import changed
from noisyir.base.errors import ConfigError
from noisyir.detection.rate import Interval
from tests.refusals import refuses
from tests.unit.audits.world import audit_of
from tests.unit.stages.audit_world import judged_as


def audited(p_clean, high: float, *, threshold: float = 0.5, judged_wrong: int = 0, sampled: int = 50):
    """An audit of pairs with these chances, as far as refusals look at it."""
    rows = {}
    for number, p in enumerate(p_clean):
        verdict = "wrong" if p < threshold else "clean"
        said = {"machine_verdict": verdict, "machine_p_clean": p, "verdict": verdict, "p_clean": p}
        if number < judged_wrong:
            said |= {"judged": "wrong", "verdict": "wrong", "p_clean": 0.0}
        rows[f"q{number}", "d"] = said
    table: pa.Table = audit_of(rows)
    return SimpleNamespace(table=table, sampled=sampled, noise=Interval(high / 2, 0.0, high))


def refused(found, drop=True) -> str:
    with pytest.raises(ConfigError) as caught:
        refuse_too_much(found, drop=drop, force=False)
    refuse_too_much(found, drop=drop, force=True)
    return str(caught.value)


def test_no_more_than_twice_the_rates_upper_end_is_changed():
    p_clean = np.linspace(0.01, 0.99, 100)  # 50 below one half
    refuse_too_much(audited(p_clean, 0.25), drop=True, force=False)
    refuse_too_much(audited(p_clean, 0.25), drop=False, force=False)
    message = refused(audited(p_clean, 0.2))
    assert "would change 50 of 100 pairs (50 %), more than twice the 20.0 % that may be wrong by the sample" in message


@pytest.mark.parametrize("judged_wrong", [0, 15])
def test_the_threshold_that_is_advised_is_enough(judged_wrong):
    p_clean = np.linspace(0.01, 0.99, 100)[::-1]  # those judged wrong are not those that the machine doubts
    message = refused(audited(p_clean, 0.1, judged_wrong=judged_wrong))
    threshold = float(re.search(r"detect.threshold=([\d.]+) flags fewer", message)[1])
    found = audited(p_clean, 0.1, threshold=threshold, judged_wrong=judged_wrong)
    refuse_too_much(found, drop=True, force=False)
    assert 0 < changed(found.table, drop=True) <= 20


def test_where_no_threshold_helps_none_is_advised():
    for found in (audited(np.full(100, 1e-9), 0.1), audited(np.linspace(0.01, 0.99, 100), 0.1, judged_wrong=30)):
        assert "look at the flagged pairs, or judge more; --force" in refused(found)


def test_a_small_sample_is_not_enough_but_all_of_few_pairs_are():
    assert "at least 20 pairs judged wrong or right, and 7 are" in refused(audited([0.9] * 100, 0.9, sampled=7))
    refuse_too_much(audited([0.9] * 7, 0.9, sampled=7), drop=True, force=False)


def test_without_a_random_sample_nothing_is_begun(tmp_path):
    pairs = tmp_path / "mine.jsonl"
    pairs.write_text('{"query": "a", "document": "b"}\n')
    page = judged_as(tmp_path / "page.csv", [("q", "d", "wrong")])
    unclear = judged_as(tmp_path / "unclear.csv", [("s", "d", "unclear", "3")])
    drawn = judged_as(tmp_path / "drawn.csv", [("r", "d", "wrong", "3")])
    for files, why in (((), "no random sample was judged"), ((page, unclear), "carry no weights")):
        exp = experiment_to_audit(str(pairs), judgements=files)
        with pytest.raises(ConfigError, match=why):
            refuse_unjudged(exp, force=False)
        assumed = experiment_to_audit(str(pairs), judgements=files, assume="random")
        refuse_unjudged(assumed, force=True)
        if files:
            refuse_unjudged(exp, force=True)
            continue
        with refuses(ConfigError, "app.rate_unknown", assume="--assume random --force"):
            refuse_unjudged(exp, force=True)
    refuse_unjudged(experiment_to_audit(str(pairs), judgements=[page, drawn]), force=False)
