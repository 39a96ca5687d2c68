"""What holds for any verdicts: intervals hold their estimates, and bounds are shares."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import JudgedPairs


@st.composite
def audits(draw):
    pairs = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    judged = draw(st.integers(0, pairs))
    rows = rng.permutation(pairs)[:judged]
    answers = JudgedPairs(rows, rng.random(judged) < draw(st.floats(0, 1)), rng.integers(1, 9, judged).astype(float))
    scores = rng.integers(0, draw(st.integers(1, 100)), pairs).astype(float)
    features = rng.normal(size=(pairs, 4)) if draw(st.booleans()) else None
    return scores, features, rng.integers(0, pairs, pairs), answers


@settings(max_examples=60, deadline=None)
@given(audits())
def test_whatever_is_judged_what_is_told_makes_sense(audit):
    scores, features, query, answers = audit
    told = judge_all(scores, features, query, answers)
    lesson, judged = told.lesson, len(answers.rows)
    assert ((lesson.p_wrong >= 0) & (lesson.p_wrong <= 1)).all() and np.isfinite(lesson.suspicion).all()
    order = np.argsort(lesson.suspicion, kind="stable")
    assert (np.diff(lesson.p_wrong[order]) >= -1e-12).all()
    assert told.sampled == judged and (told.rate is None) == (told.guarantee is None) == (not judged)
    if told.rate is not None:
        assert 0 <= told.rate.low <= told.rate.value + 1e-9 and told.rate.value <= told.rate.high + 1e-9 <= 1 + 2e-9
        bounds = told.guarantee
        assert bounds.kept[-1] == len(scores) and ((bounds.bound > 0) & (bounds.bound <= 1)).all()
        assert (np.diff(bounds.kept * bounds.bound) >= -1e-9).all() or (bounds.bound == 1).any()


def test_chances_rise_with_suspicion_even_where_all_judgements_contradict_the_order():
    """Two scores, all 60 judged: the order without judgements stays, and so do its chances'."""
    scores = np.repeat([0.0, 1.0], 30)
    answers = JudgedPairs(np.arange(60), scores == 0, np.ones(60))
    lesson = judge_all(scores, None, np.arange(60), answers).lesson
    assert lesson.p_wrong[0] < lesson.p_wrong[-1] and (lesson.suspicion == scores).all()
