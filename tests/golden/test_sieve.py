"""The passage sieve (Wang et al., AAAI 2024, Algorithm 1): its lines as arithmetic, and the rule they come to."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noisyir.mining.judges import SieveJudge, pool_means, sieve_out_rate, stays


def algorithm_1(negatives, positive):
    """Lines 11 to 15 for one query, by losses: which negatives stay."""
    pool = [*negatives, positive]
    total = sum(exp(score) for score in pool)
    losses = [-log(exp(score) / total) for score in pool]  # Eq. 6
    threshold = sum(losses) / len(pool)  # line 12
    return [loss >= threshold for loss in losses[:-1]]  # line 15


def sieved(negatives, positive):
    """The same by `noisyir.mining.judges`."""
    score, query = np.array(negatives, np.float32), np.zeros(len(negatives), np.int64)
    return stays(score, pool_means(score, query, np.array([positive], np.float32))).tolist()


def test_algorithm_1_in_small_numbers():
    """Cosines 0.9, 0.5, 0.1 and the positive's 0.7: the pool's mean is 0.55."""
    assert algorithm_1([0.9, 0.5, 0.1], 0.7) == sieved([0.9, 0.5, 0.1], 0.7) == [False, True, True]
    bound = pool_means(np.array([0.9, 0.5, 0.1], np.float32), np.zeros(3, np.int64), np.array([0.7], np.float32))
    np.testing.assert_allclose(bound, (0.9 + 0.5 + 0.1 + 0.7) / 4)


def test_the_positive_counts_in_the_mean():
    """Without it the mean would be 0.5, with it 0.6, so 0.55 stays; a wrong one at -0.9 lets it go."""
    assert sieved([0.7, 0.55, 0.25], 0.9) == algorithm_1([0.7, 0.55, 0.25], 0.9) == [False, True, True]
    assert sieved([0.7, 0.55, 0.25], -0.9) == algorithm_1([0.7, 0.55, 0.25], -0.9) == [False, False, False]


def test_each_query_has_a_pool_of_its_own_whatever_the_order_of_rows():
    query = np.array([1, 0, 1, 0, 0])
    score = np.array([0.9, 0.9, 0.1, 0.5, 0.1], np.float32)
    bound = pool_means(score, query, np.array([0.7, 0.2], np.float32))
    np.testing.assert_allclose(bound, [1.2 / 3, 2.2 / 4, 1.2 / 3, 2.2 / 4, 2.2 / 4])
    assert stays(score, bound).tolist() == [False, False, True, True, True]
    assert sieve_out_rate(stays(score, bound)) == pytest.approx(2 / 5)


cosines = st.lists(st.integers(-64, 64).map(lambda n: n / 64), min_size=1, max_size=12)  # exact in either precision


@given(cosines, st.integers(-64, 64).map(lambda n: n / 64), st.sampled_from([1.0, 20.0]))
def test_losses_at_least_the_mean_loss_are_cosines_at_most_the_mean_cosine(negatives, positive, scale):
    mean = sum([*negatives, positive]) / (len(negatives) + 1)
    assert sieved(negatives, positive) == [cosine <= mean for cosine in negatives]
    # logarithms round where there is a tie; a temperature has no part in it
    assume(all(abs(cosine - mean) > 1e-9 for cosine in negatives))
    assert sieved(negatives, positive) == algorithm_1([scale * cosine for cosine in negatives], scale * positive)


@given(cosines, st.integers(-64, 64).map(lambda n: n / 64), st.sampled_from([1.0, 20.0]))
def test_lemma_1_what_is_likelier_than_a_random_guess_goes(negatives, positive, scale):
    """F > 1 / (n + 1) is enough to go, and not needed: the mean of logarithms is below the logarithm of the mean."""
    total = sum(exp(scale * cosine) for cosine in [*negatives, positive])
    for cosine, keep in zip(negatives, sieved(negatives, positive), strict=True):
        if exp(scale * cosine) / total > (1 + 1e-9) / (len(negatives) + 1):
            assert not keep


def test_lemma_1_has_no_converse():
    """0.1 is above the mean -0.02 of the pool, so it goes, though f is a random guess's 1/4 or less at scale 20."""
    negatives, positive = [0.1, -0.9, 0.0], 0.72
    assert exp(20 * 0.1) / sum(exp(20 * cosine) for cosine in [*negatives, positive]) < 1 / 4
    assert sieved(negatives, positive)[0] is False


@given(st.floats(-1, 1, width=32), st.integers(1, 40))
def test_a_pool_of_duplicates_stays_whole(cosine, size):
    assert sieved([cosine] * size, cosine) == [True] * size


def test_no_candidates_are_no_error():
    nothing = np.empty(0, np.float32)
    bound = pool_means(nothing, np.empty(0, np.int64), nothing)
    assert len(bound) == 0 and sieve_out_rate(stays(nothing, bound)) == 0.0


def loss_of_the_code(negatives, positive, beta):
    """`loss_my_cores_pos` for one query: NCE stands in the positive's cell of P, beta CCR goes off every cell; mean."""
    pool = [positive, *negatives]
    total = sum(map(exp, pool))
    losses = [-log(exp(score) / total) for score in pool]
    cells = [(losses[0] if cell == 0 else 0.0) - beta * sum(losses) / len(pool) for cell in range(len(pool))]
    return sum(cells) / len(pool)


@pytest.mark.parametrize(("preset", "own", "effective"), [("code_main", 0.1, 0.6), ("code_ar2", 1.0, 6.0)])
def test_the_presets_of_the_code_have_the_beta_that_it_comes_to(preset, own, effective):
    params = SieveJudge(preset=preset)
    assert params.ccr.beta == pytest.approx(effective)
    negatives, positive = [0.3, -0.2, 0.5, 0.1, 0.0], 0.6
    total = sum(map(exp, [positive, *negatives]))
    losses = [-log(exp(score) / total) for score in [positive, *negatives]]
    equation_8 = losses[0] - params.ccr.beta * sum(losses) / 6
    assert loss_of_the_code(negatives, positive, own) == pytest.approx(equation_8 / 6)


def test_the_papers_preset_and_a_beta_that_is_set():
    assert SieveJudge().ccr.beta == 0.5
    assert SieveJudge(preset="code_ar2", ccr={"beta": 0.25}).ccr.beta == 0.25
    assert SieveJudge(preset="code_main", hard_negatives=3).ccr.beta == pytest.approx(0.4)
    settings = SieveJudge()
    assert (settings.learning_rate, settings.epochs, settings.hard_negatives, settings.pool) == (1e-7, 1, 5, "own")
    assert (settings.betas, settings.clip_norm, settings.weight_decay, settings.scale) == ((0.8, 0.9), None, 0.01, 1.0)
