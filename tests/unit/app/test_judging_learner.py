"""What a session is told of its judgements."""

import json

import numpy as np
import pytest

from noisyir.audits.judging.learning import Knowledge, PairLearner
from noisyir.audits.judging.session import told, told_guarantee
from noisyir.audits.keeping import Keeping
from noisyir.detection.guarantee import Guarantee
from noisyir.detection.judgements import HumanJudgement

PAIRS = 600


@pytest.fixture(scope="module")
def world():
    """(learner, is_wrong): a third is wrong; the score tells a little of it, the features the rest."""
    rng = np.random.default_rng(0)
    is_wrong = rng.random(PAIRS) < 1 / 3
    scores = is_wrong + 1.5 * rng.normal(size=PAIRS)
    features = np.column_stack([is_wrong + 0.7 * rng.normal(size=PAIRS), rng.normal(size=(PAIRS, 4))])
    return PairLearner(scores, features - features.mean(axis=0), np.arange(PAIRS)), is_wrong


def judged(is_wrong, count, unsure=0):
    """The first pairs: of every three, two drawn at random and one chosen; the last ones unsure."""
    said = {}
    for row in range(count):
        verdict = "unclear" if row >= count - unsure else "wrong" if is_wrong[row] else "clean"
        said[row] = HumanJudgement(verdict, 4.0 if row % 3 else None)
    return said


def test_it_tells_rate_order_and_guarantee(world):
    learner, is_wrong = world
    known = learner.learn(judged(is_wrong, 150, unsure=9))
    assert known.sampled == sum(1 for row in range(141) if row % 3), "drawn at random, and decided"
    assert known.rate.low < is_wrong.mean() < known.rate.high
    assert known.order.value > 0.7 and known.advice.startswith("Judgements improve the order")
    assert known.narrower.startswith("50 more, drawn at random, would narrow this to about ±")
    assert json.loads(json.dumps(known.as_json()))["guarantee"][-1][0] == PAIRS
    text = "\n".join(told(known))
    assert f"by {known.sampled} pairs drawn at random" in text and f"in {known.order} of cases" in text


def test_the_bound_is_kept_by_what_it_names(world):
    learner, is_wrong = world
    known = learner.learn(judged(is_wrong, 300))
    assert np.all((0 <= known.bounds.bound) & (known.bounds.bound <= 1))
    assert np.all((0 < known.bounds.kept) & (known.bounds.kept <= PAIRS))
    assert known.bounds.bound[-1] >= is_wrong.mean()
    keeping = Keeping(known.bounds, PAIRS)
    expected = f"keep the {keeping.most(0.4):,} of 600 pairs with the lowest score: at most"
    assert expected in told_guarantee(keeping, 0.4)
    assert "no part of the pairs is known" in told_guarantee(keeping, 0.02)
    assert "nothing can be said" in told_guarantee(Keeping(Knowledge().bounds, PAIRS), 0.1)


def test_without_features_or_answers_the_order_stays(world):
    learner, is_wrong = world
    plain = PairLearner(learner.scores, None, learner.query)
    assert plain.learn({}) == Knowledge()
    some = plain.learn(judged(is_wrong, 90))
    assert "order stays" in some.advice and some.rate is not None


def test_chosen_pairs_tell_nothing_of_the_rate(world):
    learner, is_wrong = world
    chosen = {row: HumanJudgement("wrong" if wrong else "clean") for row, wrong in enumerate(is_wrong[:60])}
    known = learner.learn(chosen)
    assert known.rate is None and known.sampled == 0 and known.bounds is None


def test_what_could_be_kept_is_the_most_within_the_bound():
    keeping = Keeping(Guarantee(np.array([40, 60, 80]), np.array([0.03, 0.02, 0.08]), 0.9, 50), 100)
    assert keeping.most(0.05) == 60
    assert keeping.most(0.01) == 0
