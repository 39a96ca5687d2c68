"""Contrastive distant supervision (Bian et al., Findings of EMNLP 2023), Eq. 2 and 4 to 14, in numbers."""

from math import exp, log, sqrt
from statistics import median

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from noisyir.readers.cds import (
    contrast,
    counterfactual,
    cross_entropy,
    debias,
    denoise,
    evidence,
    initial,
    n_best_chance,
    shares,
    span_scores,
    updated,
)

T = 0.5
W = [0.6, 0.3, 0.1]
QUESTIONS = [[1.0, 2.0], [0.5, -1.0], [3.0, 1.0]]
ANSWERS = [[2.0, 1.0], [-1.0, 1.0], [0.0, 2.0]]
CONTEXTS = [[1.0, 0.0], [1.0, 1.0], [-2.0, 1.0]]
CONFUSING = [[0.0, 3.0], [1.0, -1.0]]


def cos(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def tensors(*given, grad=True):
    return [torch.tensor(values, requires_grad=grad) for values in given]


# Eq. 2: counterfactual instances ----------------------------------------------------------------------------


def test_counterfactual_instances_lie_below_the_margin_of_equation_2():
    chance = [0.5, 0.05, 0.2, 0.3]
    m = max(chance) - median(chance)
    by_hand = [[s < x - m for s in chance] for x in chance]
    assert counterfactual(np.array(chance)).tolist() == by_hand
    assert by_hand[0] == [False, True, True, False], "of the likeliest, all below the median"
    assert not any(by_hand[1]) and not any(by_hand[2]), "of one at or below the margin, none"


@pytest.mark.parametrize("chance", [[0.7], [0.2, 0.2, 0.2], [0.0, 0.0]])
def test_a_lone_instance_and_flat_chances_have_no_counterfactuals(chance):
    assert not counterfactual(np.array(chance)).any()


def test_the_chance_of_a_span_is_its_part_among_the_n_best_and_itself():
    start, end = torch.tensor([[2.0, 0.5, -1.0]]), torch.tensor([[0.0, 1.5, 3.0]])
    scores = {(s, e): float(start[0, s] + end[0, e]) for s in range(3) for e in range(s, 3)}
    top = sorted(scores.values(), reverse=True)[:3]
    ends = [(0, 2), (1, 1), (2, 2)]
    window = torch.zeros(3, dtype=torch.int64)
    first, last = torch.tensor([s for s, _ in ends]), torch.tensor([e for _, e in ends])
    found = n_best_chance(start, end, window, first, last, n_best=3, max_answer_len=30)
    for chance, span in zip(found.tolist(), ends, strict=True):
        listed = top if scores[span] in top else [*top, scores[span]]
        assert chance == pytest.approx(exp(scores[span]) / sum(map(exp, listed)), rel=1e-6)
    assert [scores[span] in top for span in ends] == [True, False, False]


def test_a_span_longer_than_answers_may_be_is_added_to_the_n_best():
    start, end = torch.tensor([[2.0, 0.5, -1.0]]), torch.tensor([[0.0, 1.5, 3.0]])
    zero, two = torch.tensor([0]), torch.tensor([2])
    found = n_best_chance(start, end, zero, zero, two, n_best=2, max_answer_len=2)
    assert found.item() == pytest.approx(exp(5.0) / (exp(5.0) + exp(3.5) + exp(3.5)), rel=1e-6)
    scores = span_scores(start, end, 2)
    assert scores.tolist() == [[[2.0, 3.5], [2.0, 3.5], [2.0, float("-inf")]]]


# Eq. 5: debias ----------------------------------------------------------------------------------------------


def test_the_debias_loss_is_equation_5():
    competitors = [[False, True, True], [False, False, True], [False, False, False]]
    found = debias(*tensors(QUESTIONS, ANSWERS), torch.tensor(competitors), torch.tensor(W), T).tolist()
    for x in range(3):
        own = exp(cos(QUESTIONS[x], ANSWERS[x]) / T)
        others = sum(exp(cos(QUESTIONS[x], ANSWERS[s]) / T) for s in range(3) if competitors[x][s])
        assert found[x] == pytest.approx(-W[x] * log(own / (own + others)), rel=1e-5)
    assert found[2] == 0.0, "nothing to tell it from"


def test_the_debias_loss_pulls_the_question_to_its_answer_and_from_the_counterfactual_one():
    questions, answers = tensors([[1.0, 0.0]] * 2, [[0.0, 1.0], [0.0, -1.0]])
    debias(questions, answers, torch.tensor([[False, True], [False, False]]), torch.ones(2), T).sum().backward()
    assert questions.grad[0, 1] < 0 < answers.grad[1, 0] and answers.grad[0, 0] < 0
    assert questions.grad[1].tolist() == [0.0, 0.0]


# Eq. 6: denoise ---------------------------------------------------------------------------------------------

ATTRACTS = [[True, True], [False, True], [False, False]]
REPELS = [[j != i for j in range(3)] for i in range(3)]


def test_the_denoise_loss_is_equation_6_without_the_instance_itself():
    given = *tensors(CONTEXTS, CONFUSING), torch.tensor(ATTRACTS), torch.tensor(REPELS)
    found = denoise(*given, torch.tensor(W), T).tolist()
    for x in range(2):
        near = sum(exp(cos(p, CONTEXTS[x]) / T) for p, own in zip(CONFUSING, ATTRACTS[x], strict=True) if own)
        far = sum(W[j] * exp(cos(CONTEXTS[j], CONTEXTS[x]) / T) for j in range(3) if j != x)
        assert found[x] == pytest.approx(-(1 - W[x]) * log(near / (near + far)), rel=1e-5)
    assert found[2] == 0.0, "no confusing passage"


def test_instances_of_no_confidence_repel_nobody():
    weights = torch.tensor([1.0, 0.0, 0.0])
    given = *tensors(CONTEXTS, CONFUSING), torch.ones(3, 2, dtype=torch.bool), torch.tensor(REPELS)
    found = denoise(*given, weights, T).tolist()
    assert found[0] == 0.0, "1 - w is 0, and the others' weights are"
    near = sum(exp(cos(p, CONTEXTS[1]) / T) for p in CONFUSING)
    assert found[1] == pytest.approx(log((near + exp(cos(CONTEXTS[0], CONTEXTS[1]) / T)) / near), rel=1e-5)


@pytest.mark.parametrize("passages", [0, 2])
@pytest.mark.parametrize("instances", [1, 3])
def test_empty_sets_give_no_loss_and_finite_gradients(passages, instances):
    vectors = tensors(QUESTIONS[:instances], ANSWERS[:instances], CONTEXTS[:instances])
    confusing = torch.tensor(CONFUSING[:passages], requires_grad=True).reshape(passages, 2)
    nobody = torch.zeros(instances, instances, dtype=torch.bool)
    weights = torch.full((instances,), 1 / instances)
    loss = debias(*vectors[:2], nobody, weights, T) + denoise(
        vectors[2], confusing, torch.zeros(instances, passages, dtype=torch.bool), ~nobody, weights, T
    )
    loss = loss + denoise(vectors[2], confusing, torch.ones(instances, passages, dtype=torch.bool), nobody, weights, T)
    assert loss.tolist() == [0.0] * instances
    loss.sum().backward()
    assert all(vector.grad is None or not vector.grad.any() for vector in vectors)


def test_a_zero_vector_keeps_loss_and_gradient_finite():
    (contexts,) = tensors([[0.0, 0.0], [1.0, 0.0]])
    yes = torch.ones(2, 1, dtype=torch.bool)
    loss = denoise(contexts, torch.ones(1, 2), yes, ~torch.eye(2, dtype=torch.bool), torch.tensor([0.5, 0.5]), 0.05)
    loss.sum().backward()
    assert torch.isfinite(loss).all() and torch.isfinite(contexts.grad).all()


# Eq. 7, and Eq. 4's constants -------------------------------------------------------------------------------


def test_the_cross_entropy_is_equation_7():
    start, end = [0.5, 0.25, 0.1], [0.8, 0.5, 0.3]
    found = cross_entropy(torch.tensor(start).log(), torch.tensor(end).log(), torch.tensor(W)).tolist()
    assert found == pytest.approx([-w * (log(s) + log(e)) for w, s, e in zip(W, start, end, strict=True)], rel=1e-6)


def test_no_gradient_flows_through_confidences():
    vectors = tensors(QUESTIONS, ANSWERS, CONTEXTS, CONFUSING)
    weights = torch.tensor(W, requires_grad=True)
    competitors = torch.tensor(REPELS)
    loss = debias(*vectors[:2], competitors, weights, T) + denoise(
        *vectors[2:], torch.tensor(ATTRACTS), competitors, weights, T
    )
    (loss + cross_entropy(*tensors([-1.0] * 3, [-2.0] * 3), weights)).sum().backward()
    assert weights.grad is None and all(vector.grad.abs().sum() > 0 for vector in vectors)


# Eq. 8 to 14: confidences -----------------------------------------------------------------------------------

QUESTION = np.array([0, 0, 0, 1, 1, 2])
CHANCE = np.array([0.2, 0.6, 0.1, 0.3, 0.3, 0.9])
START = np.array([0.5, 0.3, 0.2, 0.25, 0.75, 1.0])


def test_confidences_start_as_shares_of_the_retrieval_score():
    scores = np.array([6.0, 3.0, 3.0, 0.0, 0.0, 5.0])
    assert initial(scores, QUESTION).tolist() == pytest.approx([6 / 12, 3 / 12, 3 / 12, 1 / 2, 1 / 2, 1.0])
    assert initial(np.array([-1.0, 3.0]), np.array([0, 0])).tolist() == [0.0, 1.0]


def test_soft_weighting_is_equations_10_and_11_and_moves_by_equation_9():
    z = evidence("soft", CHANCE, np.zeros(6, bool), START, QUESTION)
    assert z.tolist() == pytest.approx([0.2 / 0.9, 0.6 / 0.9, 0.1 / 0.9, 0.5, 0.5, 1.0])
    w = updated(START, z, 0.8)
    assert w.tolist() == pytest.approx([0.8 * a + 0.2 * b for a, b in zip(START, z, strict=True)])


def test_hard_max_is_equation_12_and_a_tie_goes_to_the_first():
    assert evidence("hard_max", CHANCE, np.zeros(6, bool), START, QUESTION).tolist() == [0, 1, 0, 1, 0, 1]


def test_positive_average_is_equations_13_and_14_and_keeps_weights_where_nothing_is_matched():
    matched = np.array([True, False, True, False, False, True])
    z = evidence("positive_average", CHANCE, matched, START, QUESTION)
    assert z.tolist() == pytest.approx([1 / 2, 0, 1 / 2, 0.25, 0.75, 1.0])
    np.testing.assert_allclose(updated(START, z, 0.8)[3:5], START[3:5], err_msg="Eq. 14 would divide by 0")


def test_instances_not_read_yet_keep_their_confidence():
    chance = np.array([0.2, np.nan, 0.1, np.nan, np.nan, 0.9])
    z = evidence("soft", chance, np.zeros(6, bool), START, QUESTION)
    assert z.tolist() == pytest.approx([0.7 * 0.2 / 0.3, 0.3, 0.7 * 0.1 / 0.3, 0.25, 0.75, 1.0])


@given(st.data())
def test_confidences_of_a_question_always_add_up_to_1(data):
    question = np.sort(np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=20))))
    _, question = np.unique(question, return_inverse=True)
    number = st.one_of(st.floats(0, 1e3), st.just(0.0))
    column = st.lists(number, min_size=len(question), max_size=len(question)).map(np.array)
    w = initial(data.draw(column), question)
    for kind in ("soft", "hard_max", "positive_average", "none"):
        chance = data.draw(column)
        chance[data.draw(column) > 500] = np.nan
        matched = data.draw(column) > 1
        w = updated(w, evidence(kind, chance, matched, w, question), 0.8)
        np.testing.assert_allclose(np.bincount(question, weights=w), 1.0, rtol=1e-9)
        assert (w >= 0).all()
    np.testing.assert_allclose(shares(w, question), w, rtol=1e-9)


def test_the_third_ablation_sets_passages_with_an_answer_against_passages_without():
    competes = [[True, True], [False, True], [False, False]]
    given = tensors(QUESTIONS, ANSWERS, CONFUSING)
    found = contrast(*given, torch.tensor(competes), torch.tensor(W), T)
    own = [exp(cos(q, a) / T) for q, a in zip(QUESTIONS, ANSWERS, strict=True)]
    against = [
        sum(exp(cos(q, c) / T) for c, on in zip(CONFUSING, row, strict=True) if on)
        for q, row in zip(QUESTIONS, competes, strict=True)
    ]
    by_hand = [w * -log(o / (o + a)) for w, o, a in zip(W, own, against, strict=True)]
    assert found.tolist() == pytest.approx(by_hand, abs=1e-6) and by_hand[2] == 0.0
    found.sum().backward()
    assert all(one.grad.isfinite().all() for one in given)
