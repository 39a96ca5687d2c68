"""Decoders as embedders: last-token pooling, instructions, either side of padding; and encoders of long inputs."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from noisyir.base.errors import DataError
from noisyir.models.bi_encoder import BiEncoder, initial_bi_encoder, load_bi_encoder
from noisyir.models.portable import padded, write_onnx
from noisyir.models.settings import InitModelParams
from noisyir.models.transformer_tower import last_of
from noisyir.models.weights import weights_digest
from tests.refusals import refuses
from tests.tiny_models import tiny_decoder, tiny_encoder

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11", "w2 w2"]
PROMPT = "w20 w21 "


def vectors(encoder: BiEncoder, texts=TEXTS, side="query"):
    with torch.no_grad():
        return encoder.embed(encoder.tokenize(texts, side), side).numpy()


@pytest.fixture(params=[("Qwen3", "left"), ("Llama", "right")], ids=lambda one: one[0])
def decoder(request, tmp_path):
    return tiny_decoder(tmp_path / "decoder", *request.param)


def test_the_last_token_is_that_of_the_text_on_either_side_of_the_padding():
    states = torch.arange(24.0).reshape(3, 4, 2)
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]]).bool()
    torch.testing.assert_close(last_of(states, mask), torch.stack([states[0, 1], states[1, 3], torch.zeros(2)]))


def test_a_decoders_vector_is_its_last_tokens_whatever_is_read_with_it(decoder):
    encoder = tiny_encoder(decoder, backbone="transformer", pooling="last", query_prefix=PROMPT)
    together = vectors(encoder)
    alone = np.concatenate([vectors(encoder, [text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    tower = encoder.query_tower.encoder
    ids = encoder.tokenize(TEXTS[:1], "query").ids
    assert ids[-1] == 3  # the token that ends a text
    with torch.no_grad():
        states = tower(torch.from_numpy(ids.astype(np.int64))[None]).last_hidden_state[0]
    np.testing.assert_allclose(together[0], torch.nn.functional.normalize(states[-1], dim=0), atol=1e-6)


def test_a_decoders_folder_gives_the_same_vectors_to_sentence_transformers_and_here(decoder, tmp_path):
    encoder = tiny_encoder(decoder, backbone="transformer", pooling="last", query_prefix=PROMPT, query_max_len=9)
    encoder.save(tmp_path / "saved")
    theirs, again = SentenceTransformer(str(tmp_path / "saved"), device="cpu"), load_bi_encoder(tmp_path / "saved")
    assert theirs.prompts["query"] == PROMPT
    np.testing.assert_allclose(theirs.encode_query(TEXTS), vectors(encoder), atol=1e-5)
    np.testing.assert_allclose(theirs.encode_document(TEXTS), vectors(encoder, side="passage"), atol=1e-5)
    np.testing.assert_allclose(vectors(again), vectors(encoder), atol=1e-6)
    further = initial_bi_encoder(
        tmp_path / "saved", InitModelParams(backbone="transformer", passage_max_len=9, query_max_len=9)
    )
    assert (further.shape.pooling, further.shape.query_prefix) == ("last", PROMPT)  # nothing was set: as it was


@pytest.mark.slow
def test_a_decoder_as_onnx(decoder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    encoder = tiny_encoder(decoder, backbone="transformer", pooling="last")
    write_onnx(encoder, "query", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, dict(padded(encoder.ids(TEXTS, "query"))))
    np.testing.assert_allclose(found, vectors(encoder), atol=1e-5)


def test_fewer_layers_of_a_decoder_load_again(decoder, tmp_path):
    encoder = tiny_encoder(decoder, backbone="transformer", pooling="last", layers=1)
    encoder.save(tmp_path / "saved")
    np.testing.assert_allclose(vectors(load_bi_encoder(tmp_path / "saved", "cpu")), vectors(encoder), atol=1e-6)


def test_a_decoder_that_does_not_say_how_it_is_pooled_is_refused_before_work(decoder):
    params = InitModelParams(backbone="transformer", weights=str(decoder))
    with refuses(DataError, "models.no_pooling"):
        weights_digest(params)
    with refuses(DataError, "models.no_pooling"):
        initial_bi_encoder(decoder, params.model_copy(update={"query_max_len": 9, "passage_max_len": 9}))
    assert weights_digest(params.model_copy(update={"pooling": "last"}))


def test_pooling_and_prompts_are_those_of_the_weights_where_nothing_is_set(bert, tmp_path):
    first = tiny_encoder(bert, backbone="transformer", pooling="cls", query_prefix="w1 ", passage_prefix="w2 ")
    first.save(tmp_path)
    (tmp_path / "noisyir.json").unlink()  # as others write it
    again = tiny_encoder(tmp_path, backbone="transformer")
    assert (again.shape.pooling, again.shape.query_prefix, again.shape.passage_prefix) == ("cls", "w1 ", "w2 ")
    np.testing.assert_allclose(vectors(again), vectors(first), atol=1e-6)
    other = tiny_encoder(tmp_path, backbone="transformer", pooling="mean", query_prefix="")
    assert (other.shape.pooling, other.shape.query_prefix) == ("mean", "")
    assert tiny_encoder(bert, backbone="transformer").shape.pooling == "mean"  # a bare encoder


def test_modernbert_reads_long_texts(bert, tmp_path):
    """Longer than its local attention reaches: the folder gives the same vectors there, and a cut text others."""
    from transformers import ModernBertConfig, ModernBertModel

    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((bert / name).read_bytes())
    config = ModernBertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=2048, local_attention=32, global_attn_every_n_layers=3, pad_token_id=0,
        bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, initializer_cutoff_factor=2.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        ModernBertModel(config).save_pretrained(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": 2048}))
    long = [" ".join(f"w{n % 50}" for n in range(1500)), "w1 w2"]
    encoder = tiny_encoder(tmp_path, backbone="transformer", passage_max_len=2048, query_max_len=1024)
    assert encoder.tokenize(long, "passage").lengths.tolist() == [1502, 4]
    encoder.save(tmp_path / "saved")
    theirs = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(theirs.encode_document(long), vectors(encoder, long, "passage"), atol=1e-5)
    assert np.abs(vectors(encoder, long, "query")[0] - vectors(encoder, long, "passage")[0]).max() > 1e-3
    np.testing.assert_allclose(theirs.encode_query(long), vectors(encoder, long, "query"), atol=1e-5)
