"""A round of AR2: who learns when, on what, across rounds, and after a kill."""

import math

import numpy as np
import pytest
import torch

from noisyir.base.errors import ConfigError, DataError
from noisyir.methods.ar2.rounds import RetrieverLearner
from noisyir.training.learner import memory_advice
from noisyir.training.lists import ListBatch
from noisyir.training.losses.ar2 import ranker_loss, retriever_loss
from noisyir.training.ranker import RankerLearner
from noisyir.training.settings import TrainAr2Params
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder
from tests.unit.training.ar2_world import (
    SETTINGS,
    marked_lists,
    material,
    play,
    shuffled_vocabulary,
    toy_lists,
    toy_ranker,
)
from tests.unit.training.crew import without_dropout
from tests.unit.training.killed import killed
from tests.unit.training.toy import SIZE, training_context

BATCH = ListBatch(np.array([0, 5, 9]), np.array([[0, 1, 2, 3], [5, 6, 7, 2], [9, 10, 11, 3]]))  # 2 and 3 twice


def weights(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=0, msg=name)


@pytest.fixture
def game(bert, tmp_path):
    """`game(**settings)`: the two learners, without dropout."""

    def make(backbone="transformer", **settings):
        torch.set_num_threads(1)
        encoder = without_dropout(tiny_encoder(bert, backbone=backbone, layers=1))
        ranker, params = without_dropout(toy_ranker(bert)), TrainAr2Params(**{**SETTINGS, **settings})
        rng = training_context(tmp_path).rng
        given = material(encoder)
        of_ranker = RankerLearner(
            ranker, given.lists, params, rng,
            batch_size=params.ranker_batch_size, learning_rate=params.ranker_learning_rate, steps=10,
        )  # fmt: skip
        return of_ranker, RetrieverLearner(encoder.train(), ranker.train(), given, params, rng)

    return make


def gradients(model):
    return {
        name: weight.grad.to_dense().clone() for name, weight in model.named_parameters() if weight.grad is not None
    }


# Who learns -------------------------------------------------------------------------------------------------


def test_either_model_stands_still_while_the_other_learns(game):
    ranker, retriever = game()
    before = weights(ranker.model), weights(retriever.model)
    ranker.step()
    assert_equal(weights(retriever.model), before[1])
    assert all(weight.grad is None for weight in retriever.model.parameters())
    between = weights(ranker.model)
    assert any((between[name] != before[0][name]).any() for name in between)

    ranker.model.train()  # the retriever's steps put it to rest
    retriever.descend(retriever.batches[0], seed=0)
    assert not ranker.model.training and retriever.model.training
    assert all(weight.grad is None for weight in ranker.model.parameters())
    retriever.step()
    assert_equal(weights(ranker.model), between)
    after = weights(retriever.model)
    assert any((after[name] != before[1][name]).any() for name in after)


def texts_of(rows, of):
    return [of[int(row)].as_py() for row in rows.ravel()]


def test_the_rankers_gradient_is_that_of_the_cross_entropy_of_its_own_lists(game):
    learner, _ = game(ranker_scale=2.0)
    lists, ranker = learner.lists, learner.ranker
    found = learner.descend(BATCH, seed=0)
    got = gradients(ranker)
    ranker.zero_grad()
    scores = torch.stack(
        [ranker(texts_of(row.repeat(4), lists.queries), texts_of(columns, lists.passages)) for row, columns in
         zip(BATCH.queries[:, None], BATCH.passages, strict=True)]
    )  # fmt: skip
    loss = ranker_loss(2.0 * scores).mean()
    loss.backward()
    assert found["ranker_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert found["ranker_accuracy"] == pytest.approx((scores.argmax(dim=1) == 0).float().mean().item())
    torch.testing.assert_close(got, gradients(ranker), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backbone", ["transformer", "static"])
@pytest.mark.parametrize("variant", ["paper", "code"])
def test_the_retrievers_gradient_is_that_of_its_loss_over_each_querys_own_list(game, backbone, variant):
    _, learner = game(backbone, variant=variant, adv_lambda=0.25)
    encoder, given = learner.encoder, learner.material
    found = learner.descend(BATCH, seed=0)
    got = gradients(encoder)
    encoder.zero_grad()
    queries = encoder.embed(given.queries.take(BATCH.queries), "query")
    passages = encoder.embed(given.passages.take(BATCH.passages.ravel()), "passage").view(3, 4, -1)
    lists = given.lists
    with torch.no_grad():
        judged = learner.ranker(
            texts_of(np.repeat(BATCH.queries, 4), lists.queries), texts_of(BATCH.passages, lists.passages)
        ).view(3, 4)
    scores = 5.0 * torch.einsum("bh,bnh->bn", queries, passages)
    loss = retriever_loss(scores, judged, adv_lambda=0.25, variant=variant)
    loss.total.backward()
    assert list(found) == ["retriever_loss", "adversarial", "distillation"]
    assert list(found.values()) == pytest.approx([value.item() for value in loss], rel=1e-5)
    torch.testing.assert_close(got, gradients(encoder), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "less", [{"lists_at_once": 1}, {"lists_at_once": 2}, {"chunk_size": 4}, {"gradient_checkpointing": True}]
)
def test_less_memory_gives_the_same_gradients(game, less):
    for whole, frugal in zip(game(), game(**less), strict=True):
        twice = [part for part in frugal.model.modules() if getattr(part, "gradient_checkpointing", False)]
        assert bool(twice) == ("gradient_checkpointing" in less)
        one, other = whole.descend(BATCH, seed=0), frugal.descend(BATCH, seed=0)
        assert one == pytest.approx(other, rel=1e-5)
        torch.testing.assert_close(gradients(whole.model), gradients(frugal.model), rtol=1e-4, atol=1e-6)


def test_bf16_is_nearly_the_same_and_scores_and_weights_stay_float32(game):
    for whole, half in zip(game(), game(precision="bf16"), strict=True):
        one, other = whole.descend(BATCH, seed=0), half.descend(BATCH, seed=0)
        assert one == pytest.approx(other, rel=0.05, abs=0.05) and one != other
        assert {weight.grad.dtype for weight in half.model.parameters() if weight.grad is not None} == {torch.float32}


def test_each_distinct_passage_is_encoded_once(game):
    _, learner = game("static")
    batch = learner._texts(BATCH.queries, *np.unique(BATCH.passages, return_inverse=True))
    assert len(batch.passages) == len(set(BATCH.passages.ravel())) == 10
    assert (~batch.ignored).sum(axis=1).tolist() == [4, 4, 4]


def test_the_ranker_learns_to_tell_and_the_retriever_to_rank_as_it_does(bert, tmp_path):
    more = {"ranker_steps": 30, "retriever_steps": 30, "rounds": 1, "adv_lambda": 0.1, "ranker_learning_rate": 3e-3}
    more |= {"retriever_learning_rate": 3e-3, "ranker_batch_size": 24, "retriever_batch_size": 24}
    _, _, curves, _, _ = play(bert, tmp_path, lists=marked_lists(), **more)
    value = {name: [point[3] for point in curves if point[0] == name] for name, *_ in curves}
    assert value["ranker_loss"][0] > 0.5 * math.log(4) and value["ranker_loss"][-1] < 0.1
    assert value["ranker_accuracy"][-1] > 0.9
    assert value["distillation"][-1] < 0.5 * value["distillation"][0]


def test_vocabularies_may_differ(bert, tmp_path):
    """Words numbered the other way round are the same words: not a bit differs."""
    for name in ("same", "other"):
        (tmp_path / name).mkdir()
    other = toy_ranker(shuffled_vocabulary(bert, tmp_path / "shuffled"))
    one, two = play(bert, tmp_path / "same"), play(bert, tmp_path / "other", ranker=other)
    assert one[2] == two[2]
    assert_equal(weights(one[0]), weights(two[0]))
    assert other.tokenizer.convert_tokens_to_ids("w0") != one[1].tokenizer.convert_tokens_to_ids("w0")


# Rounds -----------------------------------------------------------------------------------------------------


def test_optimisers_and_schedules_go_on_from_round_to_round(bert, tmp_path):
    """Two rounds on the same negatives are, for each model, its steps in one go: the other's are in between."""
    works = [tmp_path / name for name in ("first", "second")]
    for work in works:
        work.mkdir()
    still = {"retriever_learning_rate": 1e-12}  # so that the ranker alone is looked at
    encoder, ranker, first, state, _ = play(bert, works[0], **still)
    assert state.progress == {"ranker": 5, "retriever": 6}
    _, ranker, second, state, _ = play(bert, works[1], encoder=encoder, ranker=ranker, earlier=state, **still)
    assert state.progress == {"ranker": 10, "retriever": 12}
    whole = tmp_path / "whole"
    whole.mkdir()
    _, at_once, curves, whole_state, _ = play(bert, whole, rounds=1, ranker_steps=10, retriever_steps=12, **still)
    assert_equal(weights(ranker), weights(at_once))
    assert_equal(state.tensors["ranker_optimiser"], whole_state.tensors["ranker_optimiser"])
    of = lambda points: [point for point in points if point[0] == "ranker_loss"]  # noqa: E731
    assert of(first) + of(second) == of(curves)
    assert [step for name, step, _, _ in second if name == "retriever_loss"] == list(range(7, 13))
    assert [(step, epoch) for name, step, epoch, _ in second if name == "dev_mrr@10"] == [(12, 12 / 4)]


def test_no_round_is_left_after_the_last(bert, tmp_path):
    _, _, _, state, _ = play(bert, tmp_path, rounds=1)
    (tmp_path / "again").mkdir()
    with refuses(ConfigError, "methods.ar2_rounds_over", learner="ranker", done=5):
        play(bert, tmp_path / "again", rounds=1, earlier=state)


def test_a_phase_without_steps_is_left_out(bert, tmp_path):
    start = weights(toy_ranker(bert))
    _, ranker, curves, state, taken = play(bert, tmp_path, ranker_steps=0)
    assert_equal(weights(ranker), start)
    assert {name for name, _ in taken} == {"retriever"} and state.progress["ranker"] == 0
    assert not any(name.startswith("ranker") for name, *_ in curves)


@pytest.mark.parametrize(
    ("backbone", "model", "step"),
    [pytest.param("static", "ranker", 3, marks=pytest.mark.slow), ("transformer", "retriever", 4)],
)
def test_a_killed_round_ends_in_the_same_bits(bert, tmp_path, backbone, model, step):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    *unkilled, curves, state, taken = play(bert, tmp_path / "whole", backbone)
    assert taken == [("ranker", n) for n in range(1, 6)] + [("retriever", n) for n in range(1, 7)]

    killed(play, bert, tmp_path / "killed", backbone, die_at=(model, step))
    *resumed, curves_again, state_again, taken_again = play(bert, tmp_path / "killed", backbone)

    assert taken_again == taken[taken.index((model, step)) :]  # the step it died in was not yet saved
    assert curves_again == curves and state_again.progress == state.progress
    for name, tensors in state.tensors.items():
        assert_equal(tensors, state_again.tensors[name])
    for number, (one, other) in enumerate(zip(unkilled, resumed, strict=True)):
        one.save(tmp_path / f"model{number}")
        other.save(tmp_path / f"again{number}")
        for path in (tmp_path / f"model{number}").rglob("*"):
            again = tmp_path / f"again{number}" / path.relative_to(tmp_path / f"model{number}")
            assert path.is_dir() or path.read_bytes() == again.read_bytes(), path


# What goes wrong --------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_ends_the_round(bert, tmp_path):
    ranker = toy_ranker(bert)
    with torch.no_grad():
        ranker.model.classifier.weight.fill_(float("nan"))
    with refuses(DataError, "training.diverged", model="ranker", step=0):
        play(bert, tmp_path, ranker=ranker)


def test_too_little_memory_comes_with_advice():
    with (
        refuses(ConfigError, "training.out_of_memory", model="ranker", fewer="lists_at_once"),
        memory_advice("ranker", "lists_at_once"),
    ):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="size"), memory_advice("retriever", "chunk_size"):
        torch.zeros(2) @ torch.zeros(3)


@pytest.mark.parametrize("stage", ["retriever", "ranker"])
def test_an_optimiser_without_memory_comes_with_advice(game, monkeypatch, stage):
    learner = {learner.name: learner for learner in game()}[stage]

    def full(_: float) -> None:
        raise torch.OutOfMemoryError("no memory for the moments")

    monkeypatch.setattr(learner.optimiser, "step", full)
    with refuses(ConfigError, "training.out_of_memory", model=stage):
        learner.step()


def test_toy_lists_are_all_that_the_tests_take_them_for():
    lists = toy_lists()
    assert len(lists) == SIZE and lists.missing(3).tolist() == [0] * (SIZE - 1) + [3]
