"""Noisy pair correction on the toy task with every fourth pair wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noisyir.detection.settings import TrainNpcParams
from noisyir.methods.npc.objective import Detected, NoisyPairCorrection
from noisyir.training.batches import Ragged, assemble
from noisyir.training.bi_encoder import BiEncoderLearner, train
from noisyir.training.learner import Contrastive
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.run import TrainingRun
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import SIZE, toy_pairs, training_context

WRONG = np.arange(SIZE) % 4 == 0
BACKBONES = ["static", "transformer"]
WARM_UP = 2


def noisy_pairs(encoder):
    """Query i shares two words with passage i alone, but a wrong pair names another passage."""
    pairs, rows = toy_pairs(encoder, negatives=2), np.arange(SIZE)
    passage = np.where(WRONG, (rows + 9) % SIZE, rows)
    queries = encoder.tokenize([f"w{i} w{24 + i}" for i in rows], "query")
    passages = encoder.tokenize([f"w{24 + i} w{48 + i % 12} w{i}" for i in rows], "passage")
    return replace(
        pairs, queries=queries, passages=passages, passage=passage, known=Ragged.grouped(rows, passage, SIZE)
    )


def settings(backbone="static", **changes):
    npc = {"warmup_epochs": WARM_UP, "teacher_decay": 0.9, "consistency": 1.0} | changes.pop("npc", {})
    rate = 0.003 if backbone == "static" else 0.002  # at a higher one the wrong pairs are soon known by heart
    standard = {"epochs": 5, "batch_size": 8, "learning_rate": rate, "hard_negatives": 1}
    standard["detection"] = {"method": "gmm", "min_rate": 0.0, "components": "bic"}  # the dip says nothing of 24 pairs
    return TrainNpcParams.model_validate({**standard, **changes, "npc": npc})


def correction(bert, work, params, backbone="static", given=None, **how):
    """A learner that has not begun, and its objective."""
    encoder, context = tiny_encoder(bert, backbone=backbone, layers=1), training_context(work, **how)
    pairs = noisy_pairs(encoder)
    objective = NoisyPairCorrection(encoder, pairs, params, context.rng, given)
    return BiEncoderLearner(encoder, pairs, None, params, objective, context.rng), objective


def trained(bert, work, params, backbone="static", given=None, **how):
    """The trained encoder, its objective, and the curves."""
    learner, objective = correction(bert, work, params, backbone, given)
    return learner.encoder, objective, TrainingRun([learner], training_context(work, **how)).run()


def plain(bert, work, params, backbone="static"):
    encoder = tiny_encoder(bert, backbone=backbone, layers=1)
    rng = training_context(work).rng
    return BiEncoderLearner(encoder, noisy_pairs(encoder), None, params, Contrastive(), rng)


def one_epoch(learner):
    learner.start_epoch()
    for _ in range(learner.batches.an_epoch):
        learner.step()
    learner.end_epoch()


def after_warm_up(bert, work, **changes):
    """The objective when the first detection is over, the model still its own teacher."""
    learner, objective = correction(bert, work, settings(**changes))
    for _ in range(WARM_UP):
        one_epoch(learner)
    learner.start_epoch()
    return learner, objective


def loss_of(learner, objective, rows):
    """The loss of a batch of pairs, each with one hard negative, and the student's scaled scores of it."""
    batch = assemble(objective.pairs, rows, (rows[:, None] + 1) % SIZE)
    queries, passages = learner.encoder.embed_both(batch.queries, batch.passages)
    scores = learner.params.scale * queries @ passages.T
    return objective.loss(batch, scores), scores, batch


def bits(model):
    return {name: weight.detach().numpy().tobytes() for name, weight in model.named_parameters()}


def weights(model):
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def history_bits(objective):
    names = Detected.__dataclass_fields__
    return [[np.asarray(getattr(found, name)).tobytes() for name in names] for found in objective.history]


# Warm-up ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_warm_up_is_dpr_to_the_bit(bert, tmp_path, backbone):
    params = settings(backbone)
    (learner, objective), dpr = correction(bert, tmp_path, params, backbone), plain(bert, tmp_path, params, backbone)
    for _ in range(WARM_UP):
        one_epoch(learner)
        one_epoch(dpr)
        assert bits(learner.encoder) == bits(dpr.encoder)
    assert objective.teacher is None and not objective.history and not objective.state()
    one_epoch(learner)
    one_epoch(dpr)
    assert bits(learner.encoder) != bits(dpr.encoder)


@pytest.mark.parametrize("final", ["student", "teacher"])
def test_with_every_pair_clean_and_no_consistency_loss_all_of_it_is_dpr(bert, tmp_path, final):
    """A teacher is kept where it is the result, and there it changes nothing in the student."""
    params = settings(npc={"detect": "never", "consistency": 0.0, "final": final})
    encoder, objective, _ = trained(bert, tmp_path, params)
    dpr = plain(bert, tmp_path, params)
    for _ in range(params.epochs):
        one_epoch(dpr)
    assert (objective.teacher is not None) == (final == "teacher") and not objective.history
    if final == "student":
        torch.testing.assert_close(weights(encoder), weights(dpr.encoder), rtol=1e-5, atol=1e-6)


# Detection --------------------------------------------------------------------------------------------------


def test_wrong_pairs_are_flagged_at_each_epoch_after_the_warm_up(bert, tmp_path):
    _, objective, curves = trained(bert, tmp_path, settings())
    assert [found.epoch for found in objective.history] == [2, 3, 4]
    np.testing.assert_array_equal(objective.history[0].is_clean, ~WRONG)
    for found in objective.history:
        assert (found.is_clean == ~WRONG).mean() > 0.95
        assert found.score[WRONG].min() > found.score[~WRONG].max()
        assert found.null_score.mean() > found.score[~WRONG].mean() + 1
    flagged = [(step, value) for name, step, _, value in curves if name == "flagged_share"]
    assert flagged == [(3 * found.epoch, pytest.approx(1 - found.is_clean.mean())) for found in objective.history]


@pytest.mark.parametrize(("when", "epochs"), [("each_epoch", [2, 3, 4]), ("once", [2]), ("never", []), ("given", [])])
def test_pairs_are_flagged_when_it_was_asked_for(bert, tmp_path, when, epochs):
    given = np.arange(SIZE) % 2 == 0 if when == "given" else None
    _, objective, curves = trained(bert, tmp_path, settings(npc={"detect": when}), given=given)
    assert [found.epoch for found in objective.history] == epochs
    assert sum(name == "flagged_share" for name, *_ in curves) == len(epochs)
    present = objective.state()["flags"]["is_clean"].numpy()
    if given is not None:
        np.testing.assert_array_equal(present, given)
    else:
        np.testing.assert_array_equal(present, objective.history[-1].is_clean if epochs else np.ones(SIZE, bool))


def test_detection_reads_the_model_without_dropout_and_training_goes_on_with_it(bert, tmp_path):
    learner, objective = correction(bert, tmp_path, settings("transformer", npc={"warmup_epochs": 1}), "transformer")
    one_epoch(learner)
    learner.start_epoch()
    first = objective.history[0]
    objective.start_epoch(1)  # scores the same weights again, though the model was being trained
    np.testing.assert_array_equal(objective.history[1].score, first.score)
    learner.encoder.train()
    queries = objective.pairs.queries
    assert (learner.encoder.embed(queries, "query") != objective.teacher.embed(queries, "query")).any()
    objective.start_epoch(1)
    learner.step()
    assert learner.encoder.training and not objective.teacher.training


def test_mined_negatives_make_the_pair_loss_larger(bert, tmp_path):
    without, beside = (
        after_warm_up(bert, tmp_path, batch_size=SIZE, npc={"hard_negatives": hard})[1].history[0].score
        for hard in (0, 2)
    )
    assert (beside > without).all()


# Doubt ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("doubt", [0.25, 1.0, "p_clean"])
def test_a_doubted_pair_keeps_a_part_of_its_contrastive_loss(bert, tmp_path, doubt):
    learner, objective = after_warm_up(bert, tmp_path, npc={"doubt": doubt})
    rows = np.flatnonzero(WRONG)
    loss, scores, batch = loss_of(learner, objective, rows)
    nll = pair_nll(scores, torch.from_numpy(batch.positive), torch.from_numpy(batch.ignored))
    found = objective.history[0]
    assert not found.is_clean[rows].any()
    part = torch.from_numpy(found.p_clean[rows]) if doubt == "p_clean" else doubt
    assert loss.item() == pytest.approx((part * nll).mean().item(), rel=1e-4, abs=1e-6)


def test_the_chance_of_given_flags_is_their_weight_where_that_was_asked_for(bert, tmp_path):
    params, chance = settings(npc={"detect": "given", "doubt": "p_clean"}), np.where(WRONG, 0.3, 0.9)
    encoder, context = tiny_encoder(bert, layers=1), training_context(tmp_path)
    objective = NoisyPairCorrection(encoder, noisy_pairs(encoder), params, context.rng, ~WRONG, chance)
    objective.start_epoch(WARM_UP)
    np.testing.assert_allclose(objective.state()["flags"]["trust"], np.where(WRONG, 0.3, 1.0), rtol=1e-6)


# The loss and the teacher -----------------------------------------------------------------------------------


def test_while_the_model_is_its_own_teacher_flagged_pairs_cost_nothing(bert, tmp_path):
    learner, objective = after_warm_up(bert, tmp_path)
    loss, _, _ = loss_of(learner, objective, np.flatnonzero(WRONG))
    assert loss.item() == pytest.approx(0, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, learner.encoder.passage_tower.weight)
    assert gradient.to_dense().abs().max() < 1e-5

    loss, scores, batch = loss_of(learner, objective, np.flatnonzero(~WRONG))
    nll = pair_nll(scores, torch.from_numpy(batch.positive), torch.from_numpy(batch.ignored))
    assert loss.item() == pytest.approx(nll.mean().item(), rel=1e-5)


@pytest.mark.parametrize("kl", ["teacher_student", "student_teacher"])
@pytest.mark.parametrize("consistency", [1.0, 0.5])
def test_a_batchs_loss_is_the_mean_of_equation_9(bert, tmp_path, kl, consistency):
    learner, objective = after_warm_up(bert, tmp_path, npc={"kl": kl, "consistency": consistency})
    for _ in range(learner.batches.an_epoch):
        learner.step()
    rows = np.array([0, 1, 2, 4, 7, 9, 12])  # 0's own passage is 9's, too, and is 9's alone there
    loss, scores, batch = loss_of(learner, objective, rows)
    queries, passages = objective.teacher.embed_both(batch.queries, batch.passages)
    total = 0.0
    for row, pair in enumerate(rows):
        counts = ~batch.ignored[row]
        student, teacher = (
            np.exp(some) / np.exp(some).sum()
            for some in (
                scores.detach().numpy()[row, counts].astype(float),
                20.0 * (queries @ passages.T).numpy()[row, counts].astype(float),
            )
        )
        left, right = (teacher, student) if kl == "teacher_student" else (student, teacher)
        total += consistency * (left * np.log(left / right)).sum()
        if objective.history[0].is_clean[pair]:
            total -= np.log(student[counts[: batch.positive[row]].sum()])
    assert loss.item() == pytest.approx(total / len(rows), rel=1e-3)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_teacher_is_the_moving_average_of_the_student_over_all_steps_since_the_warm_up(bert, tmp_path, backbone):
    learner, objective = correction(bert, tmp_path, settings(backbone), backbone)
    for _ in range(WARM_UP):
        one_epoch(learner)
    expected, steps = weights(learner.encoder).double(), 0
    while not learner.finished:
        learner.start_epoch()
        for _ in range(learner.batches.an_epoch):
            learner.step()
            expected, steps = 0.9 * expected + 0.1 * weights(learner.encoder).double(), steps + 1
        learner.end_epoch()
    assert steps == 9
    torch.testing.assert_close(weights(objective.teacher).double(), expected, rtol=1e-4, atol=1e-6)
    assert not any(weight.requires_grad or weight.grad is not None for weight in objective.teacher.parameters())


@pytest.mark.parametrize("shared", [True, False])
def test_the_model_that_is_kept_is_the_one_asked_for(bert, tmp_path, shared):
    def kept(final):
        params, context = settings(npc={"final": final}), training_context(tmp_path)
        encoder = tiny_encoder(bert, shared=shared)
        objective = NoisyPairCorrection(encoder, noisy_pairs(encoder), params, context.rng)
        train(encoder, objective.pairs, None, params, objective, context)
        return bits(encoder), bits(objective.teacher)

    (student, teacher), (averaged, teacher_again) = kept("student"), kept("teacher")
    assert teacher == teacher_again == averaged != student


def test_in_half_precision_the_teacher_stays_in_single(bert, tmp_path):
    params = settings("transformer", precision="bf16")
    _, objective, _ = trained(bert, tmp_path, params, "transformer")
    assert {weight.dtype for weight in objective.teacher.parameters()} == {torch.float32}
    batch = assemble(objective.pairs, np.arange(8), np.arange(8, 16)[:, None])
    queries, passages = objective.teacher.embed_both(batch.queries, batch.passages)
    torch.testing.assert_close(objective.teacher_scores(batch), 20.0 * queries @ passages.T)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_gradient_caching_changes_next_to_nothing(bert, tmp_path, backbone):
    """One step with flags, the teacher a little away; the transformer without dropout, which caching draws in parts."""
    found = []
    for chunk_size in (None, 3):
        params = settings(backbone, chunk_size=chunk_size, npc={"detect": "given", "warmup_epochs": 1})
        learner, objective = correction(bert, tmp_path, params, backbone, given=~WRONG)
        objective.start_epoch(1)
        with torch.no_grad():
            for number, weight in enumerate(objective.teacher.parameters()):
                weight.add_(0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))
        learner.encoder.eval()
        loss = learner.descend(learner.batches[0], seed=0)["train_loss"]
        found.append((loss, torch.cat([weight.grad.to_dense().flatten() for weight in learner.encoder.parameters()])))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    torch.testing.assert_close(found[1][1], found[0][1], atol=1e-5, rtol=1e-4)


# Resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backbone", "step", "changes"),
    [
        ("static", 4, {}),  # in the warm-up
        ("static", 7, {}),  # the first step of the first epoch after it: the checkpoint is from before the detection
        ("static", 8, {}),
        ("static", 13, {"npc": {"detect": "once", "final": "teacher"}}),
        ("static", 11, {"npc": {"detect": "given"}}),
        ("static", 11, {"npc": {"detect": "never"}, "chunk_size": 3}),
        ("static", 13, {"npc": {"consistency": 0.0}}),  # without a teacher
        ("static", 14, {"npc": {"doubt": "p_clean"}}),
        ("transformer", 8, {"npc": {"shuffles": 2}}),
        ("transformer", 10, {"chunk_size": 5}),
    ],
)
def test_a_run_that_was_cut_off_ends_in_the_same_bits(bert, tmp_path, backbone, step, changes):
    params = settings(backbone, **changes)
    given = ~WRONG if params.npc.detect == "given" else None
    (tmp_path / "cut").mkdir()
    encoder, objective, curves = trained(bert, tmp_path, params, backbone, given)
    taken = []

    def metric(name, _, at):
        if name == "train_loss":
            taken.append(at)
            if taken == list(range(1, step + 1)):
                raise KeyboardInterrupt

    how = {"metric": metric, "checkpoint_seconds": 1e-9}
    with pytest.raises(KeyboardInterrupt):
        trained(bert, tmp_path / "cut", params, backbone, given, **how)
    resumed, objective_again, curves_again = trained(bert, tmp_path / "cut", params, backbone, given, **how)
    assert taken == [*range(1, step + 1), *range(step, 3 * params.epochs + 1)], (
        "the step it was cut off in was not yet saved"
    )
    assert curves_again == curves
    assert bits(resumed) == bits(encoder)
    assert history_bits(objective_again) == history_bits(objective)
    assert bool(objective.teacher) == bool(params.npc.consistency) == bool(objective_again.teacher)
    if objective.teacher:
        assert bits(objective_again.teacher) == bits(objective.teacher)
        assert not objective_again.teacher.training


def test_a_teacher_that_reaches_back_by_epochs_decays_by_the_steps_of_one(bert, tmp_path):
    """Three steps an epoch: 1 - 1 / (10/3 * 3) is the decay 0.9."""
    found = []
    for name, npc in (
        ("by_step", {"teacher_decay": 0.9}),
        ("by_epoch", {"teacher_epochs": 10 / 3, "teacher_decay": 0}),
    ):
        (tmp_path / name).mkdir()
        _, objective, _ = trained(bert, tmp_path / name, settings(npc=npc))
        found.append([weight.detach() for weight in objective.teacher.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert settings(npc={"teacher_epochs": 0.1}).npc.decay(3) == 0.0  # less than a step: no average
