"""The reader learns: every objective finds the answer, what a step reads, and a kill changes no bit."""

import numpy as np
import pytest
import torch

from noisyir.readers.instances import windows_and_spans
from noisyir.readers.learning import ReaderLearner
from noisyir.readers.settings import TrainReaderParams
from tests.unit.training.crew import without_dropout
from tests.unit.training.killed import killed
from tests.unit.training.reader_world import PARAMS, tiny_reader, toy_instances, train
from tests.unit.training.toy import training_context

OBJECTIVES = [
    {"objective": "cds", "confidence": "soft"},
    {"objective": "cds", "confidence": "hard_max"},
    {"objective": "cds", "confidence": "positive_average"},
    {"objective": "cds", "confidence": "none"},
    {"objective": "cds", "confidence": "soft", "alpha": 0.0, "beta": 0.0},
    {"objective": "ds_all"},
    {"objective": "ds_average"},
    {"objective": "hard_em", "hard_em_steps": 10},
]


@pytest.mark.parametrize("changes", OBJECTIVES, ids=lambda changes: "-".join(map(str, changes.values())))
def test_every_objective_falls_and_finds_the_answers(bert, tmp_path, changes):
    _, curves, confidences, _ = train(bert, tmp_path, epochs=10, **changes)
    values = {name: [value for found, _, _, value in curves if found == name] for name, *_ in curves}
    assert values["reader_loss"][-1] < 0.5 * values["reader_loss"][0]
    assert np.mean(values["reader_accuracy"][-3:]) > 0.5 > values["reader_accuracy"][0]
    moved = changes["objective"] == "cds" and changes["confidence"] != "none"
    assert len(confidences.history) == (1 + 2 * 10 if moved else 1)
    totals = [np.bincount(confidences.question, weights=values) for values in confidences.history]
    np.testing.assert_allclose(totals, 1.0, rtol=1e-5)


@pytest.mark.slow
def test_a_killed_run_ends_in_the_same_bits(bert, tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole, curves, confidences, taken = train(bert, tmp_path / "whole")
    assert taken == list(range(1, 13))
    killed(train, bert, tmp_path / "killed", die_at=7)
    resumed, curves_again, confidences_again, taken_again = train(bert, tmp_path / "killed")
    assert taken_again == list(range(7, 13)) and curves_again == curves
    for name, weight in whole.named_parameters():
        assert weight.equal(dict(resumed.named_parameters())[name]), name
    history, again = (np.stack(found.history) for found in (confidences, confidences_again))
    assert len(history) == 1 + 2 * 4 and history.tobytes() == again.tobytes()
    assert not np.array_equal(history[0], history[-1])


def learner(bert, work, **changes):
    reader = tiny_reader(bert)
    params = TrainReaderParams.model_validate({**PARAMS, **changes})
    made = ReaderLearner(reader, toy_instances(reader), params, training_context(work).rng)
    made.model.train()
    return made


def gradient(learner):
    learner.descend(np.arange(5), seed=0)
    found = torch.cat([weight.grad.flatten() for weight in learner.reader.parameters() if weight.grad is not None])
    learner.reader.zero_grad()
    return found


def test_questions_may_be_read_in_parts(bert, tmp_path):
    whole, parts = (learner(bert, tmp_path, questions_at_once=count) for count in (None, 2))
    for one in (whole, parts):
        without_dropout(one.reader)
    torch.testing.assert_close(gradient(parts), gradient(whole), rtol=1e-3, atol=1e-6)


def test_bf16_is_near_fp32_and_less_memory_gives_the_same_gradient(bert, tmp_path):
    exact = gradient(learner(bert, tmp_path))
    torch.testing.assert_close(gradient(learner(bert, tmp_path, gradient_checkpointing=True)), exact)
    rough = gradient(learner(bert, tmp_path, precision="bf16"))
    assert torch.nn.functional.cosine_similarity(rough, exact, dim=0) > 0.98


def test_a_step_counts_its_questions_and_all_tokens_that_were_read(bert, tmp_path):
    one = learner(bert, tmp_path, questions_at_once=2, instances=None, objective="ds_all")
    one.step()
    windows = np.isin(one.instances.window_question, one.batches[0])
    texts = one.instances.questions.lengths[one.instances.window_question[windows]].sum()
    texts += (one.instances.window_stop - one.instances.window_first)[windows].sum()
    assert one.tokens == texts + 3 * windows.sum(), "[CLS] question [SEP] passage [SEP]"
    assert {*one.meter.rates()} == {"questions_per_second", "tokens_per_second"}


def test_each_window_is_read_once_and_confusing_ones_are_a_share_of_them(bert, tmp_path):
    instances, room = toy_instances(reader := tiny_reader(bert)), reader.tokenizer.room
    rng = np.random.default_rng(0)
    drawn = [instances.draw(question, None, 0.4, rng) for question in range(12) for _ in range(50)]
    assert all(len(one.instances) == 4 and len(one.windows) == 3 for one in drawn), "one passage has two"
    confusing = np.array([len(one.confusing) for one in drawn])
    assert set(confusing) == {1, 2} and confusing.mean() / 3 == pytest.approx(0.4, abs=0.01)
    assert all(one.attracts.shape == (4, len(one.confusing)) and one.attracts.all() for one in drawn)
    questions, passages, spans = windows_and_spans(instances, drawn[:2], room(instances.questions))
    assert len(questions) == len(passages) == 6 + sum(confusing[:2]) and len(spans.window) == 8


def test_instances_are_capped_at_random_and_a_lone_one_gets_no_confusing_passage(bert):
    instances = toy_instances(tiny_reader(bert))
    rng = np.random.default_rng(0)
    drawn = [instances.draw(3, 2, 1.0, rng) for _ in range(200)]
    counts = np.bincount(np.concatenate([one.instances for one in drawn]))[12:]
    assert all(len(one.instances) == 2 and (np.diff(one.instances) > 0).all() for one in drawn)
    assert counts.sum() == 400 and (abs(counts - 100) < 30).all()
    alone = instances.draw(3, 1, 1.0, rng)
    assert len(alone.confusing) == 0 and alone.attracts.shape == (1, 0)


def test_the_contrastive_losses_are_0_without_contrast(bert, tmp_path):
    measured = learner(bert, tmp_path, instances=1).descend(np.arange(5), seed=0)
    assert measured["debias"] == measured["denoise"] == 0.0
    assert measured["reader_loss"] == measured["cross_entropy"] > 0
    together = learner(bert, tmp_path, instances=None).descend(np.arange(5), seed=0)
    assert together["denoise"] > 0
    plain = learner(bert, tmp_path, instances=None, beta=0.0).descend(np.arange(5), seed=0)
    assert plain["denoise"] == 0.0 and plain["debias"] > 0
