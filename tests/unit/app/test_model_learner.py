"""What a session is told: from verdicts by row to rate, order, guarantee and the pairs to ask about next."""

import numpy as np
import pytest
from scipy.special import expit

from noisyir.app.judging.model_learner import ModelLearner, answers_of
from noisyir.verdicts.judgements import Judged


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    scores, features = rng.normal(size=800), rng.normal(0, 0.3, size=(800, 10))
    return scores, features, rng.random(800) < expit(scores + 5 * features[:, 0])


def said(row, wrong, weight=1.0):
    return Judged("wrong" if wrong else "clean", weight=weight)


def test_answers_leave_out_what_was_unclear_and_know_which_were_drawn():
    answers = answers_of({7: said(7, True), 2: said(2, False, None), 5: Judged("unclear")})
    assert answers.rows.tolist() == [2, 7] and answers.is_wrong.tolist() == [False, True]
    assert answers.at_random.tolist() == [False, True]


def test_nothing_judged_tells_nothing_but_which_pairs_to_ask_about(world):
    scores, features, _ = world
    learnt = ModelLearner(scores, features, np.arange(800)).learn({}, 10)
    assert learnt.known.rate is None and learnt.known.guarantee == () and learnt.known.narrower == ""
    assert len(learnt.teaching) == 10


def test_a_hundred_judgements_tell_the_rate_the_order_and_a_bound(world):
    scores, features, wrong = world
    rows = np.random.default_rng(1).permutation(800)[:100].tolist()
    judged = {row: said(row, wrong[row]) for row in rows[:-1]} | {rows[-1]: Judged("unclear")}
    learnt = ModelLearner(scores, features, np.arange(800)).learn(judged, 20)
    known = learnt.known
    assert known.sampled == 99 and known.rate.low <= wrong.mean() <= known.rate.high
    assert known.order.value > known.unlearnt.value and "improve" in known.advice
    assert known.narrower.startswith("50 more answers would narrow this to about ±")
    assert known.guarantee[-1].pairs == 800 and known.guarantee[-1].bound > wrong.mean()
    assert not set(learnt.teaching) & set(judged)
