"""Distillation as an objective: its loss from lists, its temperatures, masks and positives; caching, and resuming."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from noisyir.base.errors import DataError
from noisyir.methods.distill.objective import list_spreads, own_columns, repeated, temperature_of
from noisyir.training.batches import PairBatches, Ragged
from noisyir.training.bi_encoder import BiEncoderLearner, train
from noisyir.training.losses.distillation import listwise_kl, lse_pair, margin_mse
from noisyir.training.losses.dpr import pair_nll
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder
from tests.unit.training.taught import BOTH, LISTED, distillation, listed_pairs, settings
from tests.unit.training.toy import SIZE, toy_held, training_context


@pytest.fixture
def encoder(bert):
    return tiny_encoder(bert, backbone="static")


def first_batch(pairs, params):
    rng = np.random.default_rng(0)
    return PairBatches(pairs, params.batch_size, params.hard_negatives, lambda epoch: rng)[0]


def scored(encoder, batch, scale=20.0):
    queries, passages = encoder.embed_both(batch.queries, batch.passages)
    return scale * queries @ passages.T


def by_hand(pairs, batch, similarity):
    """Of each pair: (student's similarities, teacher's scores) of its list, its own passage first."""
    teacher = {}
    for query in range(SIZE):
        start, end = pairs.negatives.offsets[query : query + 2]
        for place in range(start, end):
            teacher[query, int(pairs.negatives.values[place])] = float(pairs.score[place])
    found = []
    for row, columns in enumerate(own_columns(batch)):
        query = int(pairs.query[batch.rows[row]])
        there = [c for c in columns if (query, int(batch.passage[c])) in teacher]
        there = list({int(batch.passage[c]): c for c in reversed(there)}.values())[::-1]
        found.append((similarity[row, there], torch.tensor([teacher[query, int(batch.passage[c])] for c in there])))
    return found


def test_a_pairs_columns_are_its_own_passage_and_the_rest_of_its_list(encoder):
    pairs, params = listed_pairs(encoder), settings()
    batch = first_batch(pairs, params)
    for row, columns in zip(batch.rows, batch.passage[own_columns(batch)], strict=True):
        start, end = pairs.negatives.offsets[row : row + 2]
        listed = set(pairs.negatives.values[start:end].tolist())
        assert columns[0] == pairs.passage[row] and len(columns) == LISTED
        assert listed <= set(columns.tolist()) and (len(listed) < LISTED or listed == set(columns.tolist()))


@pytest.mark.parametrize("loss", [listwise_kl, margin_mse])
def test_the_loss_is_the_mean_over_pairs_of_what_their_lists_say(encoder, loss):
    """Query 1's own passage has no score, query 2's list is of two, and strangers fill both up."""
    params = settings(
        {"loss": "margin" if loss is margin_mse else "listwise", "teacher_temperature": 2.0}, batch_size=24
    )
    pairs, objective = distillation(encoder, params)
    batch = first_batch(pairs, params)
    scores = scored(encoder, batch)
    wanted = []
    for similarity, teacher in by_hand(pairs, batch, scores / 20.0):
        listed = torch.ones(1, len(teacher), dtype=torch.bool)
        at = {"student_temperature": 0.05, "teacher_temperature": 2.0}
        wanted.append(loss(similarity[None], teacher[None].float(), listed, **at))
    if loss is margin_mse:  # without a score of its own passage a list has no margin
        wanted[int(np.flatnonzero(batch.rows == 1)[0])] = torch.zeros(1)
    assert float(objective.loss(batch, scores).detach()) == pytest.approx(float(torch.cat(wanted).mean()), rel=1e-5)
    assert objective.measured.keys() == {"distillation_loss"}


def test_the_contrastive_loss_is_added_by_its_weight_and_by_the_pairs_weights(encoder):
    weights = torch.linspace(0, 1, SIZE)
    batch = first_batch(listed_pairs(encoder), settings())
    scores = scored(encoder, batch)
    losses = pair_nll(scores, torch.from_numpy(batch.positive), torch.from_numpy(batch.ignored))
    contrastive = float((losses * weights[batch.rows]).mean())
    alone = float(distillation(encoder, settings())[1].loss(batch, scores).detach())
    for weight in (0.1, 1.0):
        _, objective = distillation(encoder, settings({"contrastive": weight}), weights)
        assert float(objective.loss(batch, scores).detach()) == pytest.approx(alone + weight * contrastive, rel=1e-5)
        assert objective.measured["contrastive_loss"] == pytest.approx(contrastive, rel=1e-5)


def test_all_given_passages_of_a_list_are_positives_where_that_was_asked_for(encoder):
    params = settings({"contrastive": 1.0, "positives": "lse_pair"})
    pairs, objective = distillation(encoder, params)
    second = pairs.negatives.values[pairs.negatives.offsets[3] + 1]  # query 3 has another pair
    known = Ragged.grouped(np.append(np.arange(SIZE), 3), np.append(np.arange(SIZE), second), SIZE)
    object.__setattr__(pairs, "known", known)
    batch = first_batch(pairs, settings(batch_size=SIZE))
    scores, own = scored(encoder, batch), own_columns(batch)
    (row,) = np.flatnonzero(batch.rows == 3)
    is_positive = torch.zeros(scores.shape, dtype=torch.bool)
    is_positive[torch.arange(SIZE), torch.from_numpy(batch.positive)] = True
    is_positive[row, int(own[row][batch.passage[own[row]] == second][0])] = True
    wanted = lse_pair(scores, is_positive, torch.from_numpy(batch.ignored)).mean()
    objective.loss(batch, scores)
    assert objective.measured["contrastive_loss"] == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("who", ["teacher", "student"])
def test_masked_negatives_are_out_of_the_softmax_and_their_share_is_told(encoder, who):
    bounds = {"share_of_top": 0.9} if who == "teacher" else {"over_positive": 0.1}
    params = settings({"contrastive": 1.0, "mask": who, **bounds})
    pairs, objective = distillation(encoder, params)
    batch = first_batch(pairs, params)
    scores, own = scored(encoder, batch), own_columns(batch)
    masked = torch.zeros(scores.shape, dtype=torch.bool)
    least, most = np.quantile(pairs.score, [0.01, 0.99])
    for row in range(len(batch)):
        if who == "student":
            masked[row] = scores[row] / 20.0 > scores[row, batch.positive[row]] / 20.0 + 0.1
            continue
        teacher = (pairs.teacher_scores(batch.rows[row : row + 1], batch.passage[own[row]][None])[0] - least) / (
            most - least
        )
        teacher = np.clip(teacher, 0, 1)
        high = {int(p) for p, s in zip(batch.passage[own[row]], teacher, strict=True) if s > 0.9 * np.nanmax(teacher)}
        masked[row] = torch.tensor([int(p) in high for p in batch.passage])  # wherever in the batch it stands
    ignored = torch.from_numpy(batch.ignored)
    negatives = ~ignored
    negatives[torch.arange(len(batch)), torch.from_numpy(batch.positive)] = False
    masked &= negatives
    assert masked.any()
    wanted = pair_nll(scores, torch.from_numpy(batch.positive), ignored | masked).mean()
    objective.loss(batch, scores)
    assert objective.measured["contrastive_loss"] == pytest.approx(float(wanted), rel=1e-5)
    assert objective.measured["masked_share"] == pytest.approx(float(masked.sum() / negatives.sum()))


# Temperatures -----------------------------------------------------------------------------------------------


def test_the_teachers_temperature_follows_the_spread_of_its_lists(encoder):
    pairs, objective = distillation(encoder, settings())
    spreads = [
        np.ptp(pairs.score[start:end])
        for start, end in np.lib.stride_tricks.sliding_window_view(pairs.negatives.offsets, 2)
    ]
    np.testing.assert_allclose(list_spreads(pairs), spreads)
    assert objective.teacher_temperature == pytest.approx(np.median(spreads) / 4)
    assert objective.student_temperature == pytest.approx(1 / 20)
    _, set_by_hand = distillation(encoder, settings({"teacher_temperature": 0.3, "student_temperature": 0.01}))
    assert (set_by_hand.teacher_temperature, set_by_hand.student_temperature) == (0.3, 0.01)


def test_scores_in_another_unit_give_the_same_loss(encoder):
    params = settings()
    pairs, objective = distillation(encoder, params)
    batch = first_batch(pairs, params)
    scores = scored(encoder, batch)
    _, other = distillation(encoder, params)
    object.__setattr__(other.pairs, "score", pairs.score * 1000 + 7)
    again = type(other)(other.pairs, params, None)
    assert float(again.loss(batch, scores).detach()) == pytest.approx(
        float(objective.loss(batch, scores).detach()), rel=1e-4
    )


def test_a_spread_without_order_and_lists_of_one_are_refused(encoder):
    with refuses(DataError, "methods.teacher_scores_equal"):
        temperature_of(np.zeros(3))
    pairs = listed_pairs(encoder)
    one = Ragged.grouped(np.arange(SIZE), np.arange(SIZE), SIZE)
    object.__setattr__(pairs, "negatives", one)
    with refuses(DataError, "methods.lists_too_short"):
        list_spreads(pairs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"contrastive": 1.0, "mask": "teacher"},
        {"contrastive": 1.0, "share_of_top": 0.6},
        {"mask": "student", "over_positive": 0.1},
        {"positives": "lse_pair"},
        {"flagged": "drop"},
    ],
)
def test_settings_without_an_effect_are_refused(wrong):
    with pytest.raises(ValidationError, match=r"set mask|set contrastive"):
        settings(wrong)


def test_a_passage_counts_once_in_a_list():
    assert repeated(np.array([[3, 1, 3, 3], [1, 2, 3, 1]])).tolist() == [
        [False, False, True, True],
        [False, False, False, True],
    ]


# Exactness --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ["static", "transformer"])
def test_gradient_caching_changes_next_to_nothing(bert, tmp_path, backbone):
    found = []
    for chunk_size in (None, 3):
        params = settings({**BOTH, "positives": "lse_pair"}, chunk_size=chunk_size)
        encoder = tiny_encoder(bert, backbone=backbone)
        pairs, objective = distillation(encoder, params)
        learner = BiEncoderLearner(encoder, pairs, None, params, objective, training_context(tmp_path).rng)
        encoder.eval()
        loss = learner.descend(learner.batches[0], seed=0)["train_loss"]
        found.append((loss, torch.cat([weight.grad.to_dense().flatten() for weight in encoder.parameters()])))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    torch.testing.assert_close(found[1][1], found[0][1], atol=1e-5, rtol=1e-4)


def test_the_student_comes_to_rank_as_its_teacher(bert, tmp_path):
    encoder = tiny_encoder(bert, backbone="static")
    params = settings(epochs=30, learning_rate=0.05)
    pairs, objective = distillation(encoder, params)
    curves = train(encoder, pairs, toy_held(encoder), params, objective, training_context(tmp_path))
    losses = [value for name, _, _, value in curves if name == "distillation_loss"]
    assert losses[-1] < 0.1 * losses[0]
    agree = []
    with torch.no_grad():
        for similarity, teacher in by_hand(pairs, batch := first_batch(pairs, params), scored(encoder, batch)):
            agree.append(int(similarity.argmax()) == int(teacher.argmax()))
    assert np.mean(agree) > 0.8
