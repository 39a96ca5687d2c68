"""Saved bi-encoders: the same vectors here and in sentence-transformers, the same bytes, and clear refusals."""

import filecmp
import json
import shutil

import numpy as np
import pytest
import torch

from noisyir.base.errors import ConfigError, DataError
from noisyir.models.bi_encoder import choose_device, load_bi_encoder
from tests.refusals import refuses
from tests.tiny_models import WORDS, tiny_encoder

SHAPES = {
    "static": {"backbone": "static"},
    "static, two towers, dot": {"backbone": "static", "shared": False, "similarity": "dot"},
    "transformer": {"backbone": "transformer", "query_prefix": "w1 w2 ", "passage_prefix": "w3 "},
    "transformer, two towers, cls, dot": {
        "backbone": "transformer", "shared": False, "similarity": "dot", "pooling": "cls", "query_prefix": "w5 ",
    },
}  # fmt: skip
TEXTS = ["w1 w2 w3", "", "w7", "unknown w9", " ".join(WORDS)]


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def encoder(request, bert):
    """A model of each shape, its towers unlike each other where there are two."""
    model = tiny_encoder(bert, **request.param)
    if not model.shape.shared:
        with torch.no_grad():
            for weight in model.query_tower.parameters():
                weight.mul_(1.01)
    return model


def vectors(encoder, side):
    with torch.no_grad():
        return encoder.embed(encoder.tokenize(TEXTS, side), side).numpy()


def test_a_model_that_is_loaded_again_has_the_tokenizer_that_was_parsed(encoder, tmp_path, monkeypatch):
    encoder.save(tmp_path)
    first = load_bi_encoder(tmp_path, "cpu")
    monkeypatch.delattr("tokenizers.Tokenizer")  # who parses again needs it
    np.testing.assert_array_equal(vectors(load_bi_encoder(tmp_path, "cpu"), "query"), vectors(first, "query"))


def test_sentence_transformers_gives_the_same_vectors(encoder, tmp_path):
    from sentence_transformers import SentenceTransformer

    encoder.save(tmp_path)
    theirs = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(vectors(encoder, "query"), theirs.encode_query(TEXTS), atol=1e-5)
    np.testing.assert_allclose(vectors(encoder, "passage"), theirs.encode_document(TEXTS), atol=1e-5)
    assert theirs.similarity_fn_name == encoder.similarity


@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("transformer")])
def test_transformers_reads_the_encoder_of_each_tower(name, bert, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    ours = tiny_encoder(bert, **SHAPES[name])
    ours.save(tmp_path)
    towers = {"query": "query_0_Transformer", "passage": "document_0_Transformer"}
    for side in ("query", "passage"):
        folder = tmp_path if ours.shape.shared else tmp_path / towers[side]
        read = AutoTokenizer.from_pretrained(folder)("w1 w2 w3", return_tensors="pt")
        tower = ours.query_tower if side == "query" else ours.passage_tower
        models = AutoModel.from_pretrained(folder), tower.encoder
        with torch.no_grad():
            theirs, own = (model(**read).last_hidden_state for model in models)
        torch.testing.assert_close(theirs, own)


def test_loading_and_saving_again_changes_no_vector_and_no_byte(encoder, tmp_path):
    encoder.save(tmp_path / "one")
    loaded = load_bi_encoder(tmp_path / "one", "cpu")
    loaded.save(tmp_path / "two")
    for side in ("query", "passage"):
        np.testing.assert_array_equal(vectors(loaded, side), vectors(encoder, side))
    names = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    _, different, missing = filecmp.cmpfiles(tmp_path / "one", tmp_path / "two", map(str, names), shallow=False)
    assert (different, missing) == ([], [])
    assert not loaded.training


def test_cosine_vectors_have_norm_one_and_an_empty_bag_is_zero_with_a_finite_gradient(bert):
    encoder = tiny_encoder(bert)
    made = encoder.embed(encoder.tokenize(["w1 w4", ""], "query"), "query")
    made.sum().backward()
    np.testing.assert_allclose(made.detach().norm(dim=1), [1.0, 0.0], atol=1e-6)
    assert torch.isfinite(encoder.query_tower.weight.grad.to_dense()).all()


@pytest.mark.parametrize("normalised", [True, False])
def test_a_folder_that_sentence_transformers_wrote_is_read_as_it_means(bert, tmp_path, normalised):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    inner = Transformer(str(bert), max_seq_length=16)
    modules = [inner, Pooling(32, pooling_mode="cls"), *([Normalize()] if normalised else [])]
    theirs = SentenceTransformer(modules=modules, prompts={"query": "w5 "}, device="cpu")
    theirs.save(str(tmp_path))
    ours = load_bi_encoder(tmp_path, "cpu")
    np.testing.assert_allclose(vectors(ours, "query"), theirs.encode_query(TEXTS), atol=1e-5)
    np.testing.assert_allclose(vectors(ours, "passage"), theirs.encode_document(TEXTS), atol=1e-5)


def test_a_static_folder_that_sentence_transformers_wrote_reads_whole_texts(bert, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    module = StaticEmbedding(Tokenizer.from_file(str(bert / "tokenizer.json")), embedding_dim=8)
    theirs = SentenceTransformer(modules=[module], device="cpu")
    theirs.save(str(tmp_path))
    np.testing.assert_allclose(
        vectors(load_bi_encoder(tmp_path, "cpu"), "passage"), theirs.encode_document(TEXTS), atol=1e-5
    )


def test_texts_padded_together_get_the_vectors_they_get_alone(bert):
    for pooling in ("mean", "cls"):
        encoder = tiny_encoder(bert, backbone="transformer", pooling=pooling)
        tokens = encoder.tokenize(TEXTS, "passage")
        alone = torch.cat([encoder.embed(tokens.take(np.array([row])), "passage") for row in range(len(TEXTS))])
        torch.testing.assert_close(encoder.embed(tokens, "passage"), alone, atol=1e-5, rtol=1e-5)


def without(name):
    return lambda folder: (folder / name).unlink()


def with_module(kind):
    def change(folder):
        (folder / "noisyir.json").unlink()
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["type"] = f"sentence_transformers.models.{kind}"
        (folder / "modules.json").write_text(json.dumps(modules))

    return change


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        without("model.safetensors"),
        without("tokenizer.json"),
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100]),
        lambda folder: (folder / "noisyir.json").write_text("{"),
        with_module("CLIPModel"),
    ],
    ids=["no folder", "no weights", "no tokenizer", "truncated weights", "broken settings", "unknown module"],
)
@pytest.mark.parametrize("backbone", ["static", "transformer"])
def test_what_is_not_a_model_is_refused_in_one_line(bert, tmp_path, damage, backbone):
    tiny_encoder(bert, backbone=backbone).save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(DataError, match=r"is not a model: [^\n]+$"):
        load_bi_encoder(tmp_path / "model", "cpu")


def test_a_device_that_is_not_here_is_refused():
    with refuses(ConfigError, "models.no_such_device", name="cuda:77"):
        choose_device("cuda:77")
    assert choose_device("cpu") == "cpu"
