"""AR2 (Zhang et al., ICLR 2022), Eq. 5 to 14, in numbers, and what its official code does instead."""

from math import exp, log

import numpy as np
import pytest
import torch

from noisyir.training.losses.ar2 import adversarial, distillation, ranker_loss, retriever_loss, rewards

# two queries; the right passage is in column 0
RETRIEVER, RANKER = [[1.0, 2.0, 0.5, -1.0], [0.0, -0.5, 3.0, 1.0]], [[2.0, 1.0, -0.5, 2.5], [-1.0, 0.5, 0.0, 0.25]]


def softmax(scores):
    return [exp(score) / sum(map(exp, scores)) for score in scores]


def both(retriever=RETRIEVER, ranker=RANKER):
    return torch.tensor(retriever, requires_grad=True), torch.tensor(ranker, requires_grad=True)


def pairwise(scores):
    """log p(d | q; {d, d_i}) of each negative."""
    return [log(exp(scores[0]) / (exp(scores[0]) + exp(other))) for other in scores[1:]]


def expected_reward(retriever, ranker):
    return sum(p * r for p, r in zip(softmax(retriever[1:]), pairwise(ranker), strict=True))


def cross_entropy(of, under):
    return -sum(p * log(q) for p, q in zip(of, under, strict=True))


# Eq. 5 to 7: the game, and the ranker's side ----------------------------------------------------------------


def test_the_rankers_loss_is_the_cross_entropy_of_the_first_passage():
    found = ranker_loss(torch.tensor(RANKER)).tolist()
    assert found == pytest.approx([-log(softmax(scores)[0]) for scores in RANKER], rel=1e-6)


def test_tau_multiplies_scores_as_in_equation_6():
    sharp = ranker_loss(3.0 * torch.tensor(RANKER)).tolist()
    by_hand = [-log(exp(3 * scores[0]) / sum(exp(3 * score) for score in scores)) for scores in RANKER]
    assert sharp == pytest.approx(by_hand, rel=1e-6)


# Eq. 8 to 10: the retriever's side --------------------------------------------------------------------------


def test_rewards_are_the_rankers_pairwise_log_probabilities():
    assert rewards(torch.tensor(RANKER)).tolist() == [pytest.approx(pairwise(scores), rel=1e-6) for scores in RANKER]


def test_the_adversarial_loss_is_equation_9():
    found = adversarial(*both()).tolist()
    assert found == pytest.approx([expected_reward(*pair) for pair in zip(RETRIEVER, RANKER, strict=True)], rel=1e-6)


def test_the_positive_has_no_part_in_the_retrievers_distribution_over_negatives():
    retriever, ranker = both()
    adversarial(retriever, ranker).sum().backward()
    assert retriever.grad[:, 0].tolist() == [0.0, 0.0]
    moved = [[9.0, *scores[1:]] for scores in RETRIEVER]
    torch.testing.assert_close(adversarial(*both(moved)), adversarial(*both()), rtol=0, atol=0)


def test_equation_9_bounds_equation_8_from_above():
    value = -ranker_loss(torch.tensor(RANKER)).detach()
    assert (adversarial(*both()) >= value).all() and (rewards(torch.tensor(RANKER)) >= value[:, None]).all()


def test_the_gradient_of_equation_9_is_equation_10():
    retriever, ranker = both()
    (found,) = torch.autograd.grad(adversarial(retriever, ranker).sum(), retriever)
    log_p = retriever[:, 1:].log_softmax(dim=1)  # sum_i p_i R_i grad log p_i, p and R being constants
    weights = log_p.detach().exp() * rewards(ranker).detach()
    (policy_gradient,) = torch.autograd.grad((weights * log_p).sum(), retriever)
    torch.testing.assert_close(found, policy_gradient, rtol=1e-5, atol=1e-7)
    for row, (scores, judged) in enumerate(zip(RETRIEVER, RANKER, strict=True)):
        p, reward = softmax(scores[1:]), pairwise(judged)
        mean = sum(a * b for a, b in zip(p, reward, strict=True))
        by_hand = [0.0, *(chance * (r - mean) for chance, r in zip(p, reward, strict=True))]
        np.testing.assert_allclose(found[row], by_hand, atol=1e-6)


def test_equation_10_is_the_mean_of_log_derivatives_over_draws_as_the_appendix_derives_it():
    """Eq. 13 and 14, with p_theta for the p_phi that Eq. 13 prints: draws from the retriever give the gradient."""
    scores = torch.tensor(RETRIEVER[0], requires_grad=True)
    p, reward = np.array(softmax(RETRIEVER[0][1:])), pairwise(RANKER[0])
    drawn = np.random.default_rng(0).choice(3, 200_000, p=p)
    mean = sum(reward[i] * (np.eye(3)[i] - p) * (drawn == i).mean() for i in range(3))
    (exact,) = torch.autograd.grad(adversarial(scores[None], torch.tensor(RANKER[:1])).sum(), scores)
    np.testing.assert_allclose(exact[1:], mean, atol=5e-3)


def test_a_step_against_the_gradient_moves_mass_to_the_negative_that_fools_the_ranker_most():
    retriever, ranker = both([[0.0] * 4] * 2)
    adversarial(retriever, ranker).sum().backward()
    hardest = torch.tensor(RANKER)[:, 1:].argmax(dim=1)
    assert retriever.grad[:, 1:].argmin(dim=1).tolist() == hardest.tolist()


# Eq. 11 and 12: the distillation ----------------------------------------------------------------------------


def test_the_regulariser_is_the_cross_entropy_of_equation_12_over_the_whole_list():
    by_hand = [cross_entropy(softmax(b), softmax(a)) for a, b in zip(RETRIEVER, RANKER, strict=True)]
    assert distillation(*both()).tolist() == pytest.approx(by_hand, rel=1e-6)


def test_its_gradient_is_that_of_the_divergence_between_ranker_and_retriever():
    retriever, ranker = both()
    (found,) = torch.autograd.grad(distillation(retriever, ranker).sum(), retriever)
    p_theta, p_phi = (np.array([softmax(scores) for scores in given]) for given in (RETRIEVER, RANKER))
    np.testing.assert_allclose(found, p_theta - p_phi, atol=1e-6)
    divergence = torch.nn.functional.kl_div(
        retriever.log_softmax(dim=1), ranker.detach().softmax(dim=1), reduction="sum"
    )
    torch.testing.assert_close(torch.autograd.grad(divergence, retriever)[0], found, rtol=1e-5, atol=1e-7)
    agreed = distillation(*both(RANKER)).tolist()
    assert agreed == pytest.approx([cross_entropy(softmax(b), softmax(b)) for b in RANKER], rel=1e-6)


# The sum of both --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adv_lambda", [0.0, 0.3, 1.0])
def test_both_losses_are_means_over_the_batch_weighed_by_lambda(adv_lambda):
    found = retriever_loss(*both(), adv_lambda=adv_lambda)
    game = sum(expected_reward(*pair) for pair in zip(RETRIEVER, RANKER, strict=True)) / 2
    pull = sum(cross_entropy(softmax(b), softmax(a)) for a, b in zip(RETRIEVER, RANKER, strict=True)) / 2
    assert float(found.adversarial) == pytest.approx(game, rel=1e-6)
    assert float(found.distillation) == pytest.approx(pull, rel=1e-6)
    assert found.total.item() == pytest.approx(adv_lambda * game + (1 - adv_lambda) * pull, rel=1e-6)
    assert found.total.requires_grad and not (found.adversarial.requires_grad or found.distillation.requires_grad)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_the_rankers_scores_get_no_gradient_from_the_retrievers_loss(variant):
    retriever, ranker = both()
    retriever_loss(retriever, ranker, adv_lambda=0.5, variant=variant).total.backward()
    assert ranker.grad is None and retriever.grad.abs().sum() > 0


def test_scores_far_apart_stay_finite_and_keep_their_gradient():
    retriever, ranker = both([[300.0, -300.0, 0.0]], [[-400.0, 400.0, 0.0]])
    loss = ranker_loss(ranker) + adversarial(retriever, ranker) + distillation(retriever, ranker)
    assert loss.item() == pytest.approx(800.0 - 400.0 + 600.0)
    loss.sum().backward()
    assert torch.isfinite(retriever.grad).all() and retriever.grad[0].tolist() == pytest.approx([1.0, -1.0, 0.0])
    half = torch.tensor([[10.0, 9.0, -9.0]], dtype=torch.bfloat16)
    assert distillation(half, half).dtype == ranker_loss(half).dtype == torch.float32


# What the official code minimises ---------------------------------------------------------------------------

EPS = 1e-7


def test_where_the_right_passage_is_doubted_the_distillation_alone_counts():
    for variant in ("paper", "code"):
        one, *_ = (retriever_loss(*both(), adv_lambda=0.5, variant=variant, is_clean=torch.tensor([True, False])),)
        alone = retriever_loss(*(scores[:1] for scores in both()), adv_lambda=1.0, variant=variant).total
        everything = retriever_loss(*both(), adv_lambda=0.0, variant=variant).total
        share = 0.5 if variant == "paper" else 1.0  # the paper's is a mean over both lists
        torch.testing.assert_close(one.total, 0.5 * share * alone + 0.5 * everything)


def code_adversarial(retriever, ranker):
    """Its adversarial term of one list."""
    reward = [log(exp(ranker[0]) / (exp(ranker[0]) + exp(score)) + EPS) for score in ranker]
    return sum(r * log(p + EPS) for r, p in zip(reward, softmax(retriever), strict=True))


def code_of(retriever=RETRIEVER, ranker=RANKER, adv_lambda=1.0):
    return retriever_loss(*both(retriever, ranker), adv_lambda=adv_lambda, variant="code").total.item()


def test_a_the_code_weighs_rewards_by_log_p_and_not_by_p():
    one = code_of(RETRIEVER[:1], RANKER[:1])
    assert one == pytest.approx(code_adversarial(RETRIEVER[0], RANKER[0]), rel=1e-5)
    assert one > 0 > expected_reward(RETRIEVER[0], RANKER[0])
    # its optimum is p proportional to |R|, the gold's |R| being log 2, where Eq. 9's is all mass on the hardest
    retriever, ranker = both(RETRIEVER[:1], RANKER[:1])
    sizes = torch.tensor([[log(2), *(-r for r in pairwise(RANKER[0]))]])
    with torch.no_grad():
        retriever.copy_(sizes.log())
    retriever_loss(retriever, ranker, adv_lambda=1.0, variant="code").total.backward()
    assert retriever.grad.abs().max() < 1e-5


def test_b_the_code_counts_the_gold_among_its_own_competitors():
    with_gold = code_of(RETRIEVER[:1], RANKER[:1])
    reward, p = pairwise(RANKER[0]), softmax(RETRIEVER[0])
    negatives = sum(r * log(chance) for r, chance in zip(reward, p[1:], strict=True))
    assert with_gold - negatives == pytest.approx(log(0.5) * log(p[0]), rel=1e-4)
    moved = [[9.0, *RETRIEVER[0][1:]]]
    assert code_of(moved, RANKER[:1]) != pytest.approx(with_gold, rel=0.1)


def test_c_the_code_sums_the_adversarial_term_over_the_batch_and_averages_the_other():
    one, twice = code_of(RETRIEVER[:1], RANKER[:1]), code_of(RETRIEVER[:1] * 2, RANKER[:1] * 2)
    assert twice == pytest.approx(2 * one, rel=1e-6)
    pull = code_of(RETRIEVER[:1], RANKER[:1], adv_lambda=0.0)
    assert code_of(RETRIEVER[:1] * 2, RANKER[:1] * 2, adv_lambda=0.0) == pytest.approx(pull, rel=1e-6)
    mixed = code_of(RETRIEVER[:1] * 2, RANKER[:1] * 2, adv_lambda=0.25)
    assert mixed == pytest.approx(0.25 * 2 * one + 0.75 * pull, rel=1e-6)


def test_d_the_code_adds_a_little_inside_every_logarithm():
    """So an impossible passage costs -log eps at most, where the paper's loss has no bound, and nothing pulls it up."""
    far = [[60.0, -60.0]]
    assert code_of(far, [[0.0, 50.0]], adv_lambda=0.0) == pytest.approx(-log(EPS), rel=1e-6)
    exact = retriever_loss(*both(far, [[0.0, 50.0]]), adv_lambda=0.0).total
    assert exact.item() == pytest.approx(120.0)
    assert code_of(far, [[0.0, 50.0]]) == pytest.approx(log(EPS) ** 2, rel=1e-3)
    for variant, pulled in (("code", 0.0), ("paper", -1.0)):
        retriever, ranker = both(far, [[0.0, 50.0]])
        retriever_loss(retriever, ranker, adv_lambda=0.0, variant=variant).total.backward()
        assert float(retriever.grad[0, 1]) == pytest.approx(pulled, abs=1e-6)
