"""Training that moves a part of the weights: adapters (LoRA), upper layers; and lengths that vectors may be cut to."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from noisyir.base.errors import ConfigError
from noisyir.models.bi_encoder import initial_bi_encoder, load_bi_encoder
from noisyir.models.settings import InitModelParams, LoraParams
from noisyir.models.trainable import ADAPTER
from noisyir.models.weights import refuse_unfit
from noisyir.retrieval.texts import shortened
from noisyir.training.batches import assemble
from noisyir.training.bi_encoder import BiEncoderLearner, train
from noisyir.training.learner import Contrastive
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.settings import TrainDprParams
from tests.refusals import refuses
from tests.tiny_models import static_encoder, tiny_decoder, tiny_encoder
from tests.unit.training.toy import toy_held, toy_pairs, toy_texts, training_context

QUERIES, PASSAGES = toy_texts()
LORA = LoraParams(rank=4, dropout=0.1)


def vectors(encoder, texts=QUERIES, side="query"):
    with torch.no_grad():
        return encoder.embed(encoder.tokenize(texts, side), side).numpy()


def trained(encoder, tmp_path, *, epochs=2, **params):
    settings = TrainDprParams(**{"epochs": epochs, "batch_size": 8, "learning_rate": 0.02, **params})
    encoder.limit(settings.freeze, settings.lora, seed=1)
    curves = train(encoder, toy_pairs(encoder), toy_held(encoder), settings, Contrastive(), training_context(tmp_path))
    return encoder.eval(), [value for name, *_, value in curves if name == "train_loss"]


@pytest.fixture(params=["bert", "Qwen3"])
def base(request, bert, tmp_path):
    """A folder, and the settings of its model."""
    if request.param == "bert":
        return bert, {"backbone": "transformer"}
    return tiny_decoder(tmp_path / "base"), {"backbone": "transformer", "pooling": "last", "query_prefix": "w3 "}


def test_merged_and_adapter_folders_give_the_models_vectors_and_not_the_bases(base, tmp_path):
    from peft import PeftModel
    from transformers import AutoModel

    folder, shape = base
    encoder = tiny_encoder(folder, **shape)
    before = vectors(encoder)
    encoder, losses = trained(encoder, tmp_path, lora=LORA)
    assert losses[-1] < losses[0]
    own = vectors(encoder)
    assert np.abs(own - before).max() > 1e-2  # merged is not the base
    encoder.save(tmp_path / "saved")
    np.testing.assert_allclose(vectors(encoder), own, atol=0)  # saving leaves it as it was
    np.testing.assert_allclose(vectors(load_bi_encoder(tmp_path / "saved", "cpu")), own, atol=1e-5)
    theirs = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(theirs.encode_query(QUERIES), own, atol=1e-5)

    again = tiny_encoder(folder, **shape)
    again.query_tower.encoder = PeftModel.from_pretrained(
        AutoModel.from_pretrained(folder), tmp_path / "saved" / ADAPTER
    )
    np.testing.assert_allclose(vectors(again.eval()), own, atol=1e-5)
    encoder.save(tmp_path / "twice")
    for path in (path for path in (tmp_path / "saved").rglob("*") if path.is_file()):
        assert path.read_bytes() == (tmp_path / "twice" / path.relative_to(tmp_path / "saved")).read_bytes()


def test_adapters_start_as_the_model_and_alone_learn(bert, tmp_path):
    encoder = tiny_encoder(bert, backbone="transformer")
    before, weights = vectors(encoder), {name: value.clone() for name, value in encoder.state_dict().items()}
    encoder.limit(None, LORA, seed=1)
    np.testing.assert_allclose(vectors(encoder), before, atol=1e-6)
    moved = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
    assert moved and all(".lora_" in name for name in moved)
    settings = TrainDprParams(epochs=1, batch_size=8, learning_rate=0.02, lora=LORA)
    train(encoder, toy_pairs(encoder), None, settings, Contrastive(), training_context(tmp_path))
    kept = {name.replace(".base_layer.", "."): value for name, value in encoder.state_dict().items()}
    assert all(torch.equal(kept[name], value) for name, value in weights.items())


def test_frozen_layers_stay_and_the_others_learn(bert, tmp_path):
    encoder = tiny_encoder(bert, backbone="transformer")
    before = {name: weight.detach().clone() for name, weight in encoder.named_parameters()}
    encoder, losses = trained(encoder, tmp_path, freeze=1)
    still = {name for name, weight in encoder.named_parameters() if torch.equal(weight, before[name])}
    assert losses[-1] < losses[0]
    assert all((".layer.0." in name or ".embeddings." in name) == (name in still) for name in before)
    with refuses(ConfigError, "models.freeze_leaves_none", most=1):
        tiny_encoder(bert, backbone="transformer").limit(2, LoraParams(), seed=0)


def test_adapters_learn_at_their_own_rate_unless_one_is_set():
    assert TrainDprParams(lora=LORA).learning_rate == 1e-4 == TrainDprParams(lora={"rank": 4}).learning_rate
    assert TrainDprParams(lora=LORA, learning_rate=1e-3).learning_rate == 1e-3
    assert TrainDprParams().learning_rate == TrainDprParams(lora={"rank": 0}).learning_rate == 2e-5
    with pytest.raises(ValueError, match="leave freeze=1 out"):
        TrainDprParams(lora=LORA, freeze=1)


def test_what_cannot_be_is_refused_before_work_by_the_headers_of_the_weights(bert):
    weights = InitModelParams(backbone="transformer", weights=str(bert))
    refuse_unfit(weights, LoraParams(rank=2, targets=("query", "value")), (8, 16))
    with refuses(ConfigError, "models.unknown_lora_target", target="q_proj", known="dense, key, query, value"):
        refuse_unfit(weights, LoraParams(rank=2, targets=("query", "q_proj")), ())
    with refuses(ConfigError, "models.matryoshka_too_long", dim=32, length=64):
        refuse_unfit(weights, LoraParams(), (8, 64))
    with refuses(ConfigError, "models.lora_on_static"):
        refuse_unfit(InitModelParams(weights=str(bert)), LoraParams(rank=2), ())
    with refuses(ConfigError, "models.unknown_lora_target", target="q_proj"):
        tiny_encoder(bert, backbone="transformer").limit(None, LoraParams(rank=2, targets=("q_proj",)), seed=0)
    with refuses(ConfigError, "models.static_cannot_be_limited"):
        static_encoder(torch.eye(4)).limit(None, LORA, seed=0)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_loss_is_the_mean_over_the_lengths_and_the_whole(similarity, tmp_path):
    torch.manual_seed(0)
    encoder = static_encoder(torch.randn(60, 16), similarity)
    pairs, settings = toy_pairs(encoder), TrainDprParams(matryoshka=(4, 8), batch_size=8, scale=3.0)
    learner = BiEncoderLearner(encoder, pairs, None, settings, Contrastive(), training_context(tmp_path).rng)
    batch = assemble(pairs, np.arange(8), np.empty((8, 0), np.int64), "batch")
    queries, passages = encoder.embed(batch.queries, "query"), encoder.embed(batch.passages, "passage")
    expected = []
    for length in (4, 8, 16):
        cut = [one[:, :length] for one in (queries, passages)]
        some, others = (functional.normalize(one, dim=1) for one in cut) if similarity == "cosine" else cut
        scores = 3.0 * some @ others.T
        expected.append(pair_nll(scores, torch.from_numpy(batch.positive), torch.from_numpy(batch.ignored)).mean())
    assert learner.descend(batch, seed=1)["train_loss"] == pytest.approx(float(torch.stack(expected).mean().detach()))


def test_the_loss_is_sentence_transformers_up_to_their_sum(tmp_path):
    """MatryoshkaLoss adds the losses of the lengths up; ours is their mean, at whatever number of lengths."""
    from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss

    torch.manual_seed(0)
    encoder = static_encoder(torch.randn(60, 16))
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    loss = MatryoshkaLoss(theirs, MultipleNegativesRankingLoss(theirs, scale=20.0), [16, 8, 4])
    value = loss([theirs.preprocess(texts[:8]) for texts in (QUERIES, PASSAGES)], None)
    pairs, settings = toy_pairs(encoder), TrainDprParams(matryoshka=(4, 8), batch_size=8)
    learner = BiEncoderLearner(encoder, pairs, None, settings, Contrastive(), training_context(tmp_path).rng)
    batch = assemble(pairs, np.arange(8), np.empty((8, 0), np.int64), "batch")
    assert learner.descend(batch, seed=1)["train_loss"] == pytest.approx(float(value.detach()) / 3, abs=1e-5)


def test_short_vectors_are_trained_and_the_folder_says_for_which_lengths(bert, tmp_path):
    def short(encoder):
        cut = [vectors(encoder, texts, side) for texts, side in ((QUERIES, "query"), (PASSAGES, "passage"))]
        scores = shortened(cut[0], 4, cosine=True) @ shortened(cut[1], 4, cosine=True).T
        return float(np.diag(scores).mean() - scores.mean())

    plain, _ = trained(tiny_encoder(bert), tmp_path / "a", epochs=8)
    nested, _ = trained(tiny_encoder(bert), tmp_path / "b", epochs=8, matryoshka=(8, 4))
    assert short(nested) > short(plain)
    nested.save(tmp_path / "saved")
    assert load_bi_encoder(tmp_path / "saved", "cpu").shape.matryoshka == (4, 8)
    assert SentenceTransformer(str(tmp_path / "saved"), truncate_dim=4).encode(QUERIES).shape == (24, 4)
    with refuses(ConfigError, "training.matryoshka_too_long", dim=32, length=32):
        trained(tiny_encoder(bert), tmp_path / "c", matryoshka=(32,))
    further = initial_bi_encoder(tmp_path / "saved", InitModelParams())
    assert further.shape.matryoshka == ()  # what is trained next is no longer trained for them
