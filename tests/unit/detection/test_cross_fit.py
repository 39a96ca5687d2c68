"""Models that did not see what they score."""

import numpy as np
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.detection import by_model as module
from noisyir.detection.by_model import cross_fitted
from noisyir.detection.detectors import PairsToScore
from noisyir.detection.detectors.basic import PairNll
from noisyir.detection.synthetic import References
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.settings import TrainDprParams
from tests.tiny_models import static_encoder
from tests.unit.training.toy import training_context

QUERIES, PAIRS, TEXTS = 24, 40, 18
PARAMS = TrainDprParams(epochs=2, batch_size=8, learning_rate=0.05)


def encoder():
    return static_encoder(torch.randn(2 * QUERIES, 8, generator=torch.Generator().manual_seed(0)), shared=False)


def pairs_of(encoder):
    """The words of query texts occur nowhere else; six queries repeat others' texts; some queries have many pairs."""
    rng = np.random.default_rng(0)
    text = np.concatenate([np.arange(TEXTS), rng.integers(TEXTS, size=QUERIES - TEXTS)])
    query = np.concatenate([np.arange(QUERIES), rng.integers(QUERIES, size=PAIRS - QUERIES)])
    passage = rng.integers(QUERIES, size=PAIRS)
    known = np.unique(np.stack([text[query], passage], axis=1), axis=0)
    return TrainingPairs(
        query, passage, text, Ragged.grouped(known[:, 0], known[:, 1], TEXTS),
        Ragged.grouped(query[:0], query[:0], QUERIES),
        encoder.tokenize([f"w{number}" for number in text], "query"),
        encoder.tokenize([f"w{QUERIES + number}" for number in range(QUERIES)], "passage"),
    )  # fmt: skip


def fitted(work, folds, seed=0):
    start = encoder()
    pairs = pairs_of(start)
    context = training_context(work, seed=seed, checkpoint_seconds=1e-9)
    return start, pairs, list(cross_fitted(start, pairs, folds, PARAMS, context))


@pytest.mark.parametrize("folds", [2, 3, TEXTS])
def test_each_pair_is_scored_once_by_a_model_that_met_no_query_that_reads_the_same(tmp_path, folds):
    start, pairs, scorers = fitted(tmp_path, folds)
    assert len(scorers) == folds
    assert sorted(np.concatenate([scorer.chosen for scorer in scorers])) == list(range(PAIRS))
    untouched = start.query_tower.weight
    for scorer in scorers:
        moved = (scorer.encoder.query_tower.weight != untouched).any(dim=1).numpy()[:TEXTS]
        scored = np.isin(np.arange(TEXTS), pairs.text[pairs.query[scorer.chosen]])
        np.testing.assert_array_equal(moved, ~scored, err_msg="words of queries: those that training has moved")
        assert not scorer.encoder.training


def test_folds_hold_as_many_texts_each_and_the_seed_draws_them(tmp_path):
    def texts(seed):
        _, pairs, scorers = fitted(tmp_path / str(seed), 4, seed)
        return [sorted(set(pairs.text[pairs.query[scorer.chosen]].tolist())) for scorer in scorers]

    one, again, other = texts(0), texts(0), texts(1)
    assert sorted(map(len, one)) == [4, 4, 5, 5]
    assert one == again != other


def test_the_start_model_stays_as_it_was(tmp_path):
    start, _, scorers = fitted(tmp_path, 2)
    for before, after in zip(encoder().parameters(), start.parameters(), strict=True):
        assert torch.equal(before, after)
    assert not torch.equal(scorers[0].encoder.query_tower.weight, scorers[1].encoder.query_tower.weight)


def test_a_killed_run_ends_in_the_same_models(tmp_path, monkeypatch):
    """The finished folds come from checkpoints of their own."""
    whole = [scorer.encoder for scorer in fitted(tmp_path / "whole", 3)[2]]
    steps = []

    def dying(encoder, pairs, held, params, objective, context):
        steps.append(len(pairs))
        if len(steps) == 2:
            raise KeyboardInterrupt
        return train(encoder, pairs, held, params, objective, context)

    train = module.train
    monkeypatch.setattr(module, "train", dying)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "cut", 3)
    again = [scorer.encoder for scorer in fitted(tmp_path / "cut", 3)[2]]
    for one, other in zip(whole, again, strict=True):
        assert torch.equal(one.query_tower.weight, other.query_tower.weight)


def test_more_folds_than_query_texts_are_an_error(tmp_path):
    with pytest.raises(DataError, match=f"folds=19 needs as many different training queries; there are {TEXTS}"):
        fitted(tmp_path, TEXTS + 1)


def test_the_loss_of_each_half_is_equation_3_by_the_model_of_the_other(tmp_path):
    """NPC's evidence on small sets (docs/how-to/teachers.md), in numbers; a batch holds a whole half."""
    start = encoder()
    pairs = pairs_of(start)
    unread = dict.fromkeys(
        ["collection", "documents", "query_texts", "read_documents", "runtime", "progress", "lexical_index",
         "read_sources"]
    )  # fmt: skip
    none_made_up, context = References({"random": np.full((PAIRS, 1), -1)}), training_context(tmp_path / "detector")
    given = PairsToScore(
        encoder=lambda: start, tokenised=lambda: pairs, pairs=pairs, wrong=none_made_up, rng=context.rng,
        training=context, **unread
    )  # fmt: skip
    how = {"epochs": PARAMS.epochs, "learning_rate": PARAMS.learning_rate, "batch_size": PAIRS, "shuffles": 1}
    found = PairNll(folds=2, **how).score(given).observed
    again = cross_fitted(start, pairs, 2, PARAMS.model_copy(update={"batch_size": PAIRS}), context)
    for scorer in again:
        query, passage = (
            torch.nn.functional.normalize(tower.weight.detach()[rows], dim=1).double().numpy()
            for tower, rows in (
                (scorer.encoder.query_tower, pairs.text[pairs.query[scorer.chosen]]),
                (scorer.encoder.passage_tower, QUERIES + pairs.passage[scorer.chosen]),
            )
        )
        known = set(zip(pairs.text[pairs.query].tolist(), pairs.passage.tolist(), strict=True))
        for place, row in enumerate(scorer.chosen):
            text = pairs.text[pairs.query[row]]
            open_ = [n == place or (text, pairs.passage[other]) not in known for n, other in enumerate(scorer.chosen)]
            similar = np.exp(PARAMS.scale * passage @ query[place])
            assert found[row] == pytest.approx(-np.log(similar[place] / similar[open_].sum()), rel=1e-4, abs=1e-5)
