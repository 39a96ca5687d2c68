"""The ranker: made from an encoder or a cross-encoder, saved, read again, and what cannot become one."""

import shutil

import torch

from noisyir.base.errors import DataError
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
from noisyir.models.ranker import initial_ranker, load_ranker, ranker_max_len
from noisyir.models.settings import InitRankerParams
from tests.refusals import refuses
from tests.tiny_models import static_encoder, tiny_classifier, tiny_encoder

QUERIES = [f"w{i}" for i in range(70)]
DOCUMENTS = [" ".join(f"w{(i * 7 + j) % 60}" for j in range(1 + i % 11)) for i in range(70)]


def made(folder, seed=0, **params):
    return initial_ranker(folder, InitRankerParams(**{"max_len": 24, **params}), seed)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_encoder_becomes_a_ranker_with_a_new_head_that_the_seed_decides(bert, tmp_path):
    rankers = [made(bert, seed)[0] for seed in (1, 1, 2)]
    heads = [ranker.model.classifier.weight for ranker in rankers]
    assert heads[0].equal(heads[1]) and not heads[0].equal(heads[2]) and heads[0].shape == (1, 32)
    encoder = [ranker.model.bert.embeddings.word_embeddings.weight for ranker in rankers]
    assert encoder[0].equal(encoder[2])
    assert "classifier.weight" in made(bert)[1] and not any("encoder" in name for name in made(bert)[1])


def test_torchs_generator_is_left_as_it_was(bert):
    before = torch.random.get_rng_state()
    made(bert)
    assert torch.random.get_rng_state().equal(before)


def test_it_is_saved_read_again_and_read_as_any_cross_encoder(bert, tmp_path):
    ranker, _ = made(bert)
    for name in ("one", "two"):
        ranker.save(tmp_path / name)
    again = load_ranker(tmp_path / "one", "cpu")
    again.save(tmp_path / "three")
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "three")
    assert b"_name_or_path" not in contents(tmp_path / "one")["config.json"]
    assert {name.rsplit(".")[-1] for name in contents(tmp_path / "one")} == {"json", "safetensors"}
    assert ranker_max_len(tmp_path / "one") == again.max_len == 24
    with torch.no_grad():
        scores, same = ranker(QUERIES, DOCUMENTS), again(QUERIES, DOCUMENTS)
    torch.testing.assert_close(scores, same)  # the weights are equal; sums in another order may differ in a last bit
    assert not again.training and scores.dtype == torch.float32
    judge = load_cross_encoder(tmp_path / "one", 24, "cpu")
    torch.testing.assert_close(
        scores, torch.from_numpy(judge.logits(TextPairs(QUERIES, DOCUMENTS), 64, lambda _: None))
    )


def test_pairs_of_any_lengths_and_number_score_as_they_do_alone(bert):
    ranker, _ = made(bert)
    with torch.no_grad():
        together = ranker(QUERIES, DOCUMENTS)
        alone = torch.cat([ranker([q], [d]) for q, d in zip(QUERIES, DOCUMENTS, strict=True)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert together.std() > 0.01


def test_only_the_first_layers_are_kept(bert):
    whole, cut = made(bert)[0], made(bert, layers=1)[0]
    assert len(whole.model.bert.encoder.layer) == 2 and len(cut.model.bert.encoder.layer) == 1
    names = dict(whole.model.named_parameters())
    for name, weight in cut.model.bert.encoder.named_parameters():
        assert weight.equal(names[f"bert.encoder.{name}"])


def test_a_classifier_of_one_label_is_taken_as_it_is_and_so_is_a_towers_encoder(bert, tmp_path):
    ranker, new = made(tiny_classifier(tmp_path / "classifier"), seed=5)
    judge = load_cross_encoder(tmp_path / "classifier", 24, "cpu")
    assert new == [] and ranker.model.classifier.weight.equal(judge.model.classifier.weight)
    tiny_encoder(bert, backbone="transformer", shared=False).save(tmp_path / "towers")
    assert made(tmp_path / "towers")[0].model.bert.embeddings.word_embeddings.weight.equal(
        made(bert)[0].model.bert.embeddings.word_embeddings.weight
    )


def test_what_cannot_become_a_ranker_is_refused_with_the_reason(bert, tmp_path):
    static_encoder(torch.eye(8)).save(tmp_path / "static")
    with refuses(DataError, "models.static_cannot_get_head"):
        made(tmp_path / "static")
    with refuses(DataError, "models.ranker_of_many_labels", labels=2):
        made(tiny_classifier(tmp_path / "two", labels=2))
    with refuses(DataError, "models.too_few_layers", found=2, setting="ranker.init.layers"):
        made(bert, layers=3)
    with refuses(DataError, "models.reads_too_little", limit=64, setting="ranker.init.max_len"):
        made(bert, max_len=65)
    bare = shutil.copytree(bert, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    with refuses(DataError, "models.unreadable"):
        made(bare)
    broken = shutil.copytree(bert, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"nothing")
    with refuses(DataError, "models.unreadable", fails="cannot become a ranker"):
        made(broken)
    pickled = shutil.copytree(bert, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with refuses(DataError, "models.unreadable", fails="cannot become a ranker"):
        made(pickled)


def test_a_folder_without_settings_is_no_ranker(bert, tmp_path):
    with refuses(DataError, "models.unreadable", fails="is not a ranker: ranker.json"):
        load_ranker(tiny_classifier(tmp_path / "classifier"), "cpu")
