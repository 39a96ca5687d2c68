"""The loss for sentence-transformers' Trainer is the objective that noisyir trains by, to the number."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

import noisyir
from noisyir.base.errors import ConfigError, DataError
from noisyir.detection.settings import TrainNpcParams
from noisyir.methods.npc.objective import NoisyPairCorrection, average_of
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.models.text_tokenizer import Tokens
from noisyir.training.batches import Ragged, TrainingPairs, assemble
from noisyir.training.bi_encoder import regularised
from noisyir.training.learner import follow, teacher_of
from tests.refusals import refuses
from tests.tiny_models import WORDS, static_encoder, tiny_bert, tiny_encoder

QUERIES = [f"w{n} w{n + 1} w30" for n in range(10)]
PASSAGES = [f"w{n + 20} w{n} w31 w32" for n in range(10)]
QUERIES += [QUERIES[0], "w5 w6"]  # a query with two passages, and a passage of two queries
PASSAGES += ["w50 w51", PASSAGES[3]]
ROWS = np.array([0, 3, 10, 11, 7])


@pytest.fixture(params=["static", "transformer"])
def folder(request, tmp_path):
    """A model in sentence-transformers' layout."""
    if request.param == "static":
        torch.manual_seed(0)
        encoder = static_encoder(torch.randn(len(WORDS), 16))
    else:
        encoder = tiny_encoder(tiny_bert(tmp_path / "bert"), backbone="transformer", dropout=0.0, layers=1)
    encoder.save(tmp_path / "model")
    return tmp_path / "model"


def numbered(encoder):
    """The pairs as noisyir's trainer has them."""
    queries, passages = list(dict.fromkeys(QUERIES)), list(dict.fromkeys(PASSAGES))
    query = np.array([queries.index(text) for text in QUERIES])
    passage = np.array([passages.index(text) for text in PASSAGES])
    return TrainingPairs(
        queries=encoder.tokenize(queries, "query"),
        passages=encoder.tokenize(passages, "passage"),
        query=query,
        passage=passage,
        text=np.arange(len(queries)),
        known=Ragged.grouped(query, passage, len(queries)),
        negatives=Ragged(np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64)),
    )


def theirs(folder, **how):
    model = SentenceTransformer(str(folder), device="cpu")
    return noisyir.losses.NoisyPairLoss(model, Dataset.from_dict({"anchor": QUERIES, "positive": PASSAGES}), **how)


def features(loss, rows, columns=("anchor", "positive")):
    return [loss.model.preprocess([loss.pairs[int(row)][name] for row in rows]) for name in columns]


def moved(folder):
    """Our model a little away from the folder's, and a folder with it."""
    encoder, draw = load_bi_encoder(folder, "cpu"), torch.Generator().manual_seed(0)
    for weight in encoder.parameters():
        weight.data += 0.05 * torch.randn(weight.shape, generator=draw)
    encoder.save(folder.parent / "moved")
    return encoder, folder.parent / "moved"


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("doubt", [0.25, 0.0])
def test_a_batch_has_the_loss_and_the_gradients_of_our_objective(folder, beta, doubt):
    is_clean = np.arange(len(QUERIES)) % 3 != 0
    ours, there = moved(folder)
    loss = theirs(there, beta=beta, settings={"npc.doubt": doubt, "npc.consistency": 1})
    params = TrainNpcParams(npc={"detect": "given", "doubt": doubt, "consistency": 1})
    objective = NoisyPairCorrection(ours, numbered(ours), params, np.random.default_rng, is_clean).correct()
    objective.average = average_of(load_bi_encoder(folder, "cpu"), params.npc.teacher_decay)
    loss.objective._believe(is_clean, is_clean)
    loss.objective.correct()
    loss.objective.average = average_of(loss.objective.encoder, params.npc.teacher_decay)
    loss.objective.teacher.model = SentenceTransformer(str(folder), device="cpu")

    batch = assemble(objective.pairs, ROWS, np.empty((len(ROWS), 0), np.int64))
    queries, passages = ours.embed_both(batch.queries, batch.passages)
    scores = params.scale * queries @ passages.T
    expected = objective.loss(batch, scores)
    expected = regularised(expected, batch, scores, beta) if beta else expected
    expected.backward()

    got = loss(features(loss, ROWS), torch.from_numpy(ROWS))
    got.backward()
    assert batch.ignored.any()  # copies and second passages are among the columns
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    for mine, peer in zip(sorted_gradients(ours), sorted_gradients(loss.model), strict=True):
        torch.testing.assert_close(peer, mine, rtol=1e-5, atol=1e-6)


def sorted_gradients(model):
    found = [weight.grad.to_dense() for weight in model.parameters() if weight.grad is not None]
    return sorted(found, key=lambda gradient: (gradient.shape, float(gradient.abs().sum())))


def test_a_detection_finds_what_ours_does(folder):
    ours, loss = load_bi_encoder(folder, "cpu"), theirs(folder)
    loss.start_training(3, 6)
    objective = NoisyPairCorrection(ours, numbered(ours), loss.params, loss._rng)
    assert objective.start_epoch(1) == pytest.approx(loss.start_epoch(1))
    for mine, peer in zip(objective.history, loss.detections, strict=True):
        np.testing.assert_allclose(peer.score, mine.score, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(peer.p_clean, mine.p_clean, atol=1e-4)


def test_hard_negatives_are_columns_and_another_pairs_passage_among_them_is_known(folder):
    model = SentenceTransformer(str(folder), device="cpu")
    texts = {"anchor": ["w1", "w2"], "positive": ["w3", "w4"], "negative": ["w5", "w3"]}
    loss = noisyir.losses.NoisyPairLoss(model, Dataset.from_dict(texts), correct=False)
    batch = loss._batch(np.array([0, 1]))
    assert batch.positive.tolist() == [0, 1]
    assert batch.ignored.tolist() == [[False, False, False, True], [False, False, False, False]]
    got = loss(features(loss, [0, 1], ("anchor", "positive", "negative")), torch.tensor([0, 1]))
    assert torch.isfinite(got)


def trained(loss, tmp_path, **more):
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "out"), num_train_epochs=3, per_device_train_batch_size=4, learning_rate=1e-2,
        save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, logging_strategy="no", **more,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=loss.model, args=arguments, train_dataset=loss.pairs, loss=loss, callbacks=[loss.callback]
    )
    trainer.train()
    return trainer


def test_in_the_trainer_the_teacher_follows_every_step_and_pairs_are_flagged_each_epoch(folder, tmp_path):
    loss = theirs(folder, settings={"npc.consistency": 1, "npc.teacher_decay": 0.5})
    followed = []
    after_step = loss.after_step

    def watched():
        before = loss.objective.teacher and teacher_of(loss.objective.teacher)
        after_step()
        if before is not None:
            follow(before, loss.objective.encoder, 0.5)
            both = zip(before.parameters(), loss.objective.teacher.parameters(), strict=True)
            followed.append(all(torch.allclose(expected, weight) for expected, weight in both))

    loss.after_step = watched
    trainer = trained(loss, tmp_path)
    assert followed == [True] * 6  # of three epochs of three steps, those after the first
    assert [found.epoch for found in loss.detections] == [1, 2]
    assert len(loss.is_clean) == len(QUERIES)
    assert [entry for entry in trainer.state.log_history if "flagged_share" in entry]
    teacher = {id(weight) for weight in loss.objective.teacher.parameters()}
    assert not teacher & {id(weight) for group in trainer.optimizer.param_groups for weight in group["params"]}


@pytest.mark.parametrize("folder", ["static"], indirect=True)
def test_the_teacher_may_be_what_is_kept(folder, tmp_path):
    loss = theirs(folder, settings={"npc.final": "teacher"})
    trained(loss, tmp_path)
    for kept, teacher in zip(loss.model.parameters(), loss.objective.teacher.parameters(), strict=True):
        torch.testing.assert_close(kept, teacher)


def test_other_pairs_are_evaluated_by_the_plain_loss_and_not_trained_on(folder):
    loss = theirs(folder)
    loss.model.eval()
    assert torch.isfinite(loss(features(loss, ROWS), None))
    loss.model.train()
    with refuses(DataError, "methods.loss_batch_without_numbers"):
        loss(features(loss, ROWS), None)


ROW = {"anchor": ["w1 w9", "w2", "w3"], "positive": ["w4 w1", "w5 w2", "w6"], "negative": ["w7", "w8", "w9 w3"]}


def loss_of(folder, texts, *, correct=False, rows=None, **how):
    """The loss of a batch of all pairs, and its gradients."""
    loss = noisyir.losses.NoisyPairLoss(
        SentenceTransformer(str(folder), device="cpu"), Dataset.from_dict(texts), correct=correct, **how
    )
    rows = np.arange(len(loss.pairs)) if rows is None else rows
    names = [name for name in loss.pairs.column_names if name != "label"]
    value = loss(features(loss, rows, names), torch.from_numpy(rows))
    value.backward()
    return float(value.detach()), sorted_gradients(loss.model)


def same(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    for mine, theirs in zip(one[1], other[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", [{}, {"beta": 0.3}, {"correct": True}], ids=["plain", "ccr", "npc"])
def test_pairs_of_weight_0_are_left_out_and_other_weights_multiply(folder, how):
    left_out = {name: [values[0], values[2]] for name, values in ROW.items()}
    same(loss_of(folder, {**ROW, "weight": [1.0, 0.0, 1.0]}, **how), loss_of(folder, left_out, **how))
    alone = [loss_of(folder, {**left_out, "weight": [float(n == 0), float(n == 1)]}) for n in (0, 1)]
    assert alone[0][0] != pytest.approx(alone[1][0])
    if not how:
        each = [loss_of(folder, {**ROW, "weight": weights})[0] for weights in ([1, 1, 1], [2, 1, 1], [1, 1, 3.0])]
        both = loss_of(folder, {**ROW, "weight": [2, 1, 3.0]})[0]
        assert both - each[0] == pytest.approx((each[1] - each[0]) + (each[2] - each[0]), rel=1e-4)


@pytest.mark.parametrize("how", [{}, {"beta": 0.3}, {"correct": True}], ids=["plain", "ccr", "npc"])
def test_several_positives_are_as_many_pairs_of_one_query_and_do_not_compete(folder, how):
    several = {"anchor": ["w1 w9", "w2"], "positive": [["w4 w1", "w6"], ["w5 w2"]]}
    listed = {"anchor": ["w1 w9", "w1 w9", "w2"], "positive": ["w4 w1", "w6", "w5 w2"]}
    same(loss_of(folder, several, **how), loss_of(folder, listed, **how))
    if how:
        return
    model = SentenceTransformer(str(folder), device="cpu")
    queries, passages = (model.encode(listed[side], normalize_embeddings=True) for side in ("anchor", "positive"))
    scores = 20.0 * queries @ passages.T
    scores[0, 1] = scores[1, 0] = -np.inf  # neither for nor against
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores))
    assert loss_of(folder, several)[0] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("how", [{}, {"beta": 0.3}, {"correct": True}], ids=["plain", "ccr", "npc"])
def test_ragged_negatives_are_padded_ones_with_a_mask(folder, how):
    pairs = {name: ROW[name] for name in ("anchor", "positive")}
    value, gradients = loss_of(folder, {**pairs, "negative": [["w7", "w8 w1"], [], ["w9 w3"]]}, **how)
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
    if not how:
        model = SentenceTransformer(str(folder), device="cpu")
        texts = [*pairs["positive"], "w7", "w8 w1", "w9 w3"]  # those that there are, and no padding
        queries, passages = (model.encode(some, normalize_embeddings=True) for some in (pairs["anchor"], texts))
        scores = 20.0 * queries @ passages.T
        assert value == pytest.approx(float(np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores))), rel=1e-5)
    full = loss_of(folder, {**pairs, "negative": [[text] for text in ROW["negative"]]}, **how)
    same(full, loss_of(folder, ROW, **how))


def test_ragged_and_weighted_pairs_train_in_the_trainer(folder, tmp_path):
    texts = {
        "anchor": QUERIES, "positive": [[one, one + " w9"][: 1 + n % 2] for n, one in enumerate(PASSAGES)],
        "negatives": [[f"w{40 + n}"] * (n % 4) for n in range(len(QUERIES))], "weight": [n % 3 for n in range(12)],
    }  # fmt: skip
    model = SentenceTransformer(str(folder), device="cpu")
    loss = noisyir.losses.NoisyPairLoss(model, Dataset.from_dict(texts))
    assert loss.pairs.column_names == ["anchor", "positive", "negatives_1", "negatives_2", "negatives_3", "label"]
    assert len(loss.pairs) == sum(1 + n % 2 for n in range(12) if n % 3)
    before = model.encode(QUERIES[:2])
    trained(loss, tmp_path)
    assert np.isfinite(model.encode(QUERIES[:2])).all() and np.abs(model.encode(QUERIES[:2]) - before).max() > 1e-4
    assert len(loss.detections) == 2 and len(loss.is_clean) == len(loss.pairs)


def test_a_warm_up_as_long_as_the_training_is_refused_before_the_first_step(folder, tmp_path):
    loss = theirs(folder, settings={"npc.warmup_epochs": 3})
    with refuses(ConfigError, "methods.npc_warmup_too_long", warmup_epochs=3, epochs=3):
        trained(loss, tmp_path)


def test_the_snippet_of_the_documentation_runs_as_it_stands(folder, tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
    (snippet,) = [part for part in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "NoisyPairLoss(" in part]
    folder.rename(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(snippet, names)
    assert len(names["loss"].is_clean) == len(names["loss"].pairs) > 0


def test_what_cannot_be_is_refused_in_a_line(folder):
    model = SentenceTransformer(str(folder), device="cpu")
    with refuses(DataError, "methods.loss_not_dataset"):
        noisyir.losses.NoisyPairLoss(model, [("a", "b")])
    with refuses(DataError, "methods.loss_bad_columns", label="label"):
        noisyir.losses.NoisyPairLoss(model, Dataset.from_dict({"a": ["x"], "b": ["y"], "label": [1]}))
    with refuses(DataError, "methods.loss_not_text", name="b", found=3):
        noisyir.losses.NoisyPairLoss(model, Dataset.from_dict({"a": ["x"], "b": [3]}))
    pair = {"a": ["x"], "b": [["y", "z"]]}
    for wrong, said in {
        "'b' holds 3": {"a": ["x"], "b": [[3]]},
        "'weight' holds -1": {**pair, "weight": [-1.0]},
        "nothing to train on": {**pair, "weight": [0.0]},
        "'a' holds": {"a": [["x"]], "b": ["y"]},
    }.items():
        with pytest.raises(DataError, match=wrong):
            noisyir.losses.NoisyPairLoss(model, Dataset.from_dict(said))
    with pytest.raises(ConfigError, match="doubts"):
        theirs(folder, settings={"npc.doubts": 0})
    with refuses(ConfigError, "methods.loss_unknown_setting", setting="train.epochs"):
        theirs(folder, settings={"train.epochs": 2})
    with refuses(ConfigError, "training.ccr_unbounded"):
        theirs(folder, beta=0.5, similarity="dot")


def test_a_text_is_a_token_of_the_adapter(folder):
    encoder = theirs(folder).objective.encoder
    vectors = encoder.embed(Tokens(np.array([0, 3], np.int32), np.arange(3)), "query")
    direct = encoder.model.encode([QUERIES[0], QUERIES[3]], convert_to_tensor=True, normalize_embeddings=True)
    torch.testing.assert_close(vectors, direct)
