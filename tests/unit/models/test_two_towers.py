"""AR2's and DPR's two towers as one model folder."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.two_towers import join_towers
from noisyir.base.errors import DataError
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import weights_digest
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder

AR2, HUGGING_FACE = ("question_model.", "ctx_model."), ("question_encoder.bert_model.", "ctx_encoder.bert_model.")


@pytest.fixture
def towers(bert):
    """Two towers' weights, by the checkpoint's names without a prefix."""
    passage = load_file(bert / "model.safetensors")
    return {name: weight * 0.5 for name, weight in passage.items()}, passage


def saved(path, prefixes, towers):
    named = [
        {prefix + name: w.clone() for name, w in tower.items()} for prefix, tower in zip(prefixes, towers, strict=True)
    ]
    save_file(named[0] | named[1] | {"binary.weight": torch.ones(2)}, path)
    return path


@pytest.mark.parametrize("prefixes", [AR2, HUGGING_FACE])
def test_both_towers_stand_in_one_folder(bert, towers, tmp_path, prefixes):
    from sentence_transformers import SentenceTransformer

    both = saved(tmp_path / "both.safetensors", prefixes, towers)
    folder = join_towers([both], str(bert), tmp_path / "joined", passage_max_len=48)
    model, plain = load_bi_encoder(folder), tiny_encoder(bert, backbone="transformer", pooling="cls", similarity="dot")
    tokens = plain.tokenize(["w1 w2 w3"], "passage")
    torch.testing.assert_close(model.embed(tokens, "passage"), plain.embed(tokens, "passage"))
    assert not torch.allclose(model.embed(tokens, "query"), model.embed(tokens, "passage"))
    theirs = SentenceTransformer(str(folder), device="cpu").encode_query(["w1 w2 w3"], convert_to_tensor=True)
    torch.testing.assert_close(theirs, model.embed(tokens, "query"))
    assert (model.shape.query_max_len, model.shape.passage_max_len) == (32, 48)


def test_training_starts_from_both_towers(bert, towers, tmp_path):
    folder = join_towers(
        [saved(tmp_path / "both.safetensors", AR2, towers)], str(bert), tmp_path / "joined", passage_max_len=40
    )
    given = {"backbone": "transformer", "query_max_len": 9, "passage_max_len": 40, "similarity": "dot"}
    start, model = tiny_encoder(folder, shared=False, **given), load_bi_encoder(folder)
    for side in ("query", "passage"):
        tokens = start.tokenize(["w4 w5"], side)
        torch.testing.assert_close(start.embed(tokens, side), model.embed(tokens, side))
    assert weights_digest(InitModelParams(weights=str(folder), shared=False, **given)).endswith("both towers")
    with refuses(DataError, "models.too_few_towers", folder=str(folder)):
        weights_digest(InitModelParams(weights=str(folder), **given))


def test_towers_in_two_files_are_read_and_a_missing_one_is_named(bert, towers, tmp_path):
    files = [tmp_path / "question.safetensors", tmp_path / "passage.safetensors"]
    for file, prefix, tower in zip(files, HUGGING_FACE, towers, strict=True):
        save_file({prefix + name: weight.clone() for name, weight in tower.items()}, file)
    with pytest.raises(ValueError, match=r"begins with ctx_model\. or ctx_encoder\.bert_model\."):
        join_towers(files[:1], str(bert), tmp_path / "joined")
    with refuses(DataError, "models.reads_too_little", limit=64, wanted=128):
        join_towers(files, str(bert), tmp_path / "joined")
    join_towers(files, str(bert), tmp_path / "joined", passage_max_len=64)
    with pytest.raises(FileExistsError, match="joined exists"):
        join_towers(files, str(bert), tmp_path / "joined")


def test_a_tower_that_lacks_weights_or_a_file_that_is_a_pickle_is_refused(bert, towers, tmp_path):
    few = [dict(list(tower.items())[:-1]) for tower in towers]
    with refuses(DataError, "models.missing_weights", folder=str(tmp_path / "few.safetensors")):
        join_towers([saved(tmp_path / "few.safetensors", AR2, few)], str(bert), tmp_path / "joined")
    torch.save(towers[0], tmp_path / "towers.pkl")
    with refuses(DataError, "models.unreadable", folder=str(tmp_path / "towers.pkl")):
        join_towers([tmp_path / "towers.pkl"], str(bert), tmp_path / "joined")
    assert not (tmp_path / "joined").exists()
