"""Models cut from existing weights."""

import shutil

import numpy as np
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.models import transformer_tower
from noisyir.models.bi_encoder import initial_bi_encoder, load_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.transformer_tower import read_encoder
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder


def test_a_static_model_starts_from_the_transformers_word_embeddings(bert):
    weight = tiny_encoder(bert).passage_tower.weight
    torch.testing.assert_close(weight.data, read_encoder(bert).embeddings.word_embeddings.weight.data)


def test_a_static_model_starts_from_a_static_model(bert, tmp_path):
    first = tiny_encoder(bert)
    first.save(tmp_path)
    torch.testing.assert_close(tiny_encoder(tmp_path, similarity="dot").query_tower.weight, first.query_tower.weight)


def test_fewer_layers_are_the_first_ones(bert):
    encoder = tiny_encoder(bert, backbone="transformer", layers=1, pooling="cls", similarity="dot")
    tokens = encoder.tokenize(["w1 w2"], "query")
    whole = read_encoder(bert).eval()
    states = whole(torch.tensor(tokens.ids[None].astype(np.int64)), output_hidden_states=True).hidden_states
    torch.testing.assert_close(encoder.embed(tokens, "query"), states[1][:, 0])


def test_two_towers_start_equal_and_are_two(bert):
    encoder = tiny_encoder(bert, shared=False)
    torch.testing.assert_close(encoder.query_tower.weight, encoder.passage_tower.weight)
    assert encoder.query_tower.weight.data_ptr() != encoder.passage_tower.weight.data_ptr()


def test_a_shared_static_tower_reads_queries_as_long_as_passages(bert):
    assert tiny_encoder(bert, query_max_len=3, passage_max_len=9).shape.query_max_len == 9
    assert tiny_encoder(bert, query_max_len=3, passage_max_len=9, shared=False).shape.query_max_len == 3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"backbone": "transformer", "layers": 3}, "model.layers asks for 3 layers, and .* has 2"),
        ({"backbone": "transformer", "passage_max_len": 65}, "at most 64 tokens"),
    ],
)
def test_what_the_weights_cannot_give_is_refused(bert, params, message):
    with pytest.raises(DataError, match=message):
        tiny_encoder(bert, **params)


def test_a_static_model_is_no_start_for_a_transformer(bert, tmp_path):
    tiny_encoder(bert).save(tmp_path)
    with refuses(DataError, "models.static_not_transformer"):
        tiny_encoder(tmp_path, backbone="transformer")


def test_dropout_is_saved_with_the_model_and_null_leaves_it(bert, tmp_path):
    def rates(dropout):
        folder = tmp_path / str(dropout)
        params = InitModelParams(backbone="transformer", dropout=dropout, query_max_len=32, passage_max_len=64)
        initial_bi_encoder(bert, params).save(folder)
        modules = load_bi_encoder(folder, "cpu").modules()
        return {module.p for module in modules if isinstance(module, torch.nn.Dropout)}

    assert rates(0.0) == {0.0} and rates(0.25) == {0.25} and rates(None) == {0.1}


@pytest.mark.parametrize("kind", ["BertForSequenceClassification", "DistilBert", "ModernBert"])
def test_a_static_models_words_are_those_that_transformers_reads(bert, tmp_path, monkeypatch, kind):
    """From the file alone where a BERT's words stand there, by transformers where they have another name."""
    import transformers

    config = getattr(transformers, f"{kind.removesuffix('ForSequenceClassification')}Config")
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = getattr(transformers, kind if kind.endswith("Classification") else f"{kind}Model")
    model(config(**sizes, pad_token_id=0)).save_pretrained(shutil.copytree(bert, tmp_path, dirs_exist_ok=True))
    words = read_encoder(tmp_path).get_input_embeddings().weight
    assert torch.equal(tiny_encoder(tmp_path).passage_tower.weight, words)
    if kind != "ModernBert":
        monkeypatch.setattr(transformer_tower, "read_encoder", None)
        assert torch.equal(tiny_encoder(tmp_path).passage_tower.weight, words)
