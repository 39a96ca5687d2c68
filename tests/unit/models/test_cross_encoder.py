"""The cross-encoder against transformers called plainly, one pair at a time; and folders that hold none."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from noisyir.base.errors import ConfigError, DataError
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder, relevance
from tests.refusals import refuses
from tests.tiny_models import WORDS, tiny_bert, tiny_classifier

MAX_LEN = 24


@pytest.fixture(scope="module", params=[1, 2], ids=["one_label", "two_labels"])
def folder(request, tmp_path_factory):
    return tiny_classifier(tmp_path_factory.mktemp("classifier"), labels=request.param)


@pytest.fixture
def copy(tmp_path):
    """A one-label classifier to be spoilt."""
    return tiny_classifier(tmp_path / "copy")


@pytest.fixture(scope="module")
def texts():
    """Of many lengths: some empty, some cut."""
    draw = np.random.default_rng(0)

    def text(longest):
        return " ".join(draw.choice(WORDS, draw.integers(longest)))

    return TextPairs([text(8) for _ in range(50)], [text(60) for _ in range(50)])


def judged(folder, texts, batch_tokens=512):
    judge = load_cross_encoder(folder, MAX_LEN, "cpu")
    return judge.logits(texts, batch_tokens, lambda _: None)


def plainly(folder, query, document):
    """(logit of each label) by transformers alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(
        query, document, truncation=True, max_length=MAX_LEN, return_tensors="pt"
    )
    with torch.no_grad():
        return AutoModelForSequenceClassification.from_pretrained(folder)(**tokens).logits[0].tolist()


def test_logits_are_those_of_transformers(folder, texts):
    found = judged(folder, texts)
    expected = [plainly(folder, *both) for both in zip(texts.queries, texts.documents, strict=True)]
    assert np.ptp(found) > 0.1  # the classifier tells pairs apart
    np.testing.assert_allclose(found, [row[0] if len(row) == 1 else row[1] - row[0] for row in expected], atol=1e-5)


def test_neither_the_order_nor_the_batches_matter(folder, texts):
    found = judged(folder, texts)
    order = np.random.default_rng(1).permutation(len(found))
    shuffled = TextPairs([texts.queries[row] for row in order], [texts.documents[row] for row in order])
    np.testing.assert_allclose(judged(folder, shuffled), found[order], atol=1e-5)
    for batch_tokens in (1, 100, 10**6):
        np.testing.assert_allclose(judged(folder, texts, batch_tokens), found, atol=1e-5)


def test_query_and_document_are_not_exchangeable(folder, texts):
    turned = TextPairs(texts.documents, texts.queries)
    assert np.abs(judged(folder, turned) - judged(folder, texts)).max() > 0.1


def test_two_labels_become_their_difference():
    logits = torch.tensor([[0.5, 2.0], [3.0, -1.0]])
    assert relevance(logits).tolist() == [1.5, -4.0] and relevance(logits[:, :1]).tolist() == [0.5, 3.0]


def edit(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused(folder, message, error=DataError, max_len=MAX_LEN, device="cpu"):
    with pytest.raises(error, match=message):
        load_cross_encoder(folder, max_len, device)


def test_an_encoder_without_a_classifier_is_refused_not_synthetic(tmp_path):
    refused(tiny_bert(tmp_path / "bert"), r"is not a sequence classifier: its file has no .*classifier\.weight")


def test_more_than_two_labels_are_refused(tmp_path):
    refused(tiny_classifier(tmp_path, labels=3), "has 3 labels: name a cross-encoder with one or two")


def test_pickled_weights_are_never_read(copy):
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    refused(copy, "is not a sequence classifier: .*safetensors")


def test_damaged_weights_are_refused(copy):
    (copy / "model.safetensors").write_bytes(b"not weights")
    refused(copy, "is not a sequence classifier: ")


def test_code_beside_the_weights_is_never_run(copy):
    (copy / "mine.py").write_text("raise SystemExit('was run')")
    edit(copy / "config.json", model_type="mine", auto_map={
        "AutoConfig": "mine.Config", "AutoModelForSequenceClassification": "mine.Model"
    })  # fmt: skip
    refused(copy, "brings code of its own .*'mine' itself")


def test_a_folder_needs_a_fast_tokenizer_that_pads(copy, tmp_path):
    shutil.copytree(copy, tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer.json").unlink()
    refused(tmp_path / "bare", r"has no tokenizer\.json")
    edit(copy / "tokenizer_config.json", pad_token=None)
    refused(copy, "a tokenizer without a padding token")


def test_more_tokens_than_the_model_reads_are_refused(copy):
    refused(copy, "max_len=65, but .* reads at most 64 tokens", max_len=65)
    edit(copy / "tokenizer_config.json", model_max_length=32)
    refused(copy, "reads at most 32 tokens", max_len=64)


def test_a_device_that_is_not_there_is_refused(copy):
    refused(copy, r"runtime\.device=cuda:99 cannot be used here", ConfigError, device="cuda:99")


def test_logits_that_are_not_finite_are_refused(copy, texts):
    weights = load_file(copy / "model.safetensors")
    weights["classifier.weight"][:] = 3e38  # finite, and what it weighs is not
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with refuses(DataError, "models.logits_not_finite", bad=50, pairs=50):
        judged(copy, texts)
