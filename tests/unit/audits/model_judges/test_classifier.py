"""A sequence classifier as judge, against transformers called plainly."""

import numpy as np
import pytest

from noisyir.audits.model_judges.budget import Budget
from noisyir.audits.model_judges.judges import Question, QuestionQueue
from noisyir.audits.model_judges.judges.classifier import Classifier
from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.runtime import Runtime
from tests.refusals import refuses
from tests.tiny_models import WORDS, tiny_bert, tiny_classifier


def questions(count):
    rng = np.random.default_rng(0)
    return [
        Question(" ".join(rng.choice(WORDS, 4)), " ".join(rng.choice(WORDS, rng.integers(1, 12)))) for _ in range(count)
    ]


@pytest.mark.parametrize("labels", [1, 2])
def test_its_word_is_the_probability_that_transformers_gives(tmp_path, labels):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = tiny_classifier(tmp_path / "judge", labels=labels)
    asked, seen = questions(30), []
    judge = Classifier(model=str(folder), max_len=32)
    judge.check(Budget.parse("25"))
    answers, spent, _ = judge.ask(
        QuestionQueue(asked, Budget.parse("25"), tmp_path, Runtime(device="cpu"), lambda *told: seen.append(told))
    )
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for question, answer in zip(asked[:25], answers[:25], strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(*question, return_tensors="pt")).logits[0]
        right = torch.sigmoid(logits[0]) if labels == 1 else torch.softmax(logits, 0)[1]
        assert answer.p_wrong == pytest.approx(1 - float(right), abs=1e-5)
        assert answer.verdict == ("wrong" if right < 0.5 else "clean")
    assert {answer.verdict for answer in answers[:25]} == {"wrong", "clean"}
    assert answers[25:] == [None] * 5 and (spent.calls, spent.left) == (25, 5) and seen[-1][:2] == (25, 25)


def test_its_name_tells_its_weights_and_no_folder(tmp_path):
    first = Classifier(model=str(tiny_classifier(tmp_path / "judge")))
    other = Classifier(model=str(tiny_classifier(tmp_path / "more" / "judge", seed=1)))
    assert first.name.startswith("model:judge@") and str(tmp_path) not in first.name
    assert first.name != other.name and len(first.name) == len(other.name)


def test_what_is_no_classifier_is_refused_before_any_work(tmp_path):
    with refuses(DataError, "models.no_such_model", setting="--judge-model"):
        Classifier(model=str(tmp_path / "nowhere")).check(Budget.parse("5"))
    with refuses(ConfigError, "audits.classifier_token_budget"):
        Classifier(model=str(tiny_classifier(tmp_path / "judge"))).check(Budget.parse("5k tokens"))
    encoder = Classifier(model=str(tiny_bert(tmp_path / "encoder")), max_len=32)
    with refuses(DataError, "models.missing_weights", fails="is not a sequence classifier"):
        encoder.ask(QuestionQueue(questions(1), Budget.parse("5"), tmp_path, Runtime(device="cpu"), lambda *_: None))
