"""MRR@10 on dev."""

import numpy as np
import pytest
import torch
from ir_measures import Qrel, ScoredDoc, nDCG

from noisyir.training import validation
from noisyir.training.validation import best_ranks, dev_mrr, discounted_gains, reciprocal
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import toy_held


def test_the_best_placed_relevant_passage_counts_up_to_rank_ten():
    scores = torch.tensor([[5.0, 4.0, 3.0], [5.0, 4.0, 3.0], [5.0, 4.0, 3.0]])
    relevant = torch.tensor([[True, False, False], [False, True, True], [False, False, False]])
    assert best_ranks(scores, relevant).tolist() == [1.0, 2.0, float("inf")]
    assert reciprocal(best_ranks(scores, relevant)).tolist() == [1.0, 1 / 2, 0.0]
    far = torch.arange(12.0).flip(0)[None].repeat(2, 1)
    last = torch.zeros(2, 12, dtype=torch.bool)
    last[0, 9], last[1, 10] = True, True
    assert best_ranks(far, last).tolist() == [10.0, 11.0]
    assert reciprocal(best_ranks(far, last)).tolist() == [pytest.approx(1 / 10), 0.0]


def test_ties_count_against_the_query():
    relevant = torch.tensor([[False, True, False, True]])
    assert best_ranks(torch.zeros(1, 4), relevant).tolist() == [3.0]


def test_batching_by_tokens_and_queries_changes_nothing(bert, monkeypatch):
    encoder = tiny_encoder(bert, backbone="transformer")
    held = toy_held(encoder)
    whole = dev_mrr(encoder, held)
    monkeypatch.setattr(validation, "_QUERIES_AT_ONCE", 5)
    monkeypatch.setattr(validation, "inference_tokens", lambda wanted, device: 17)
    assert dev_mrr(encoder, held) == pytest.approx(whole, abs=1e-6)
    vectors = [encoder.embed(tokens, side) for side, tokens in (("query", held.queries), ("passage", held.pool))]
    ranks = [1 + int((row > row[i]).sum()) for i, row in enumerate(vectors[0] @ vectors[1].T)]
    assert whole == pytest.approx(np.mean([1 / rank if rank <= 10 else 0.0 for rank in ranks]), abs=1e-6)


def test_discounted_gains_are_ndcg_of_one_relevant_passage():
    ranks = np.array([1, 2, 3, 10])
    judged = [ScoredDoc("q", f"d{rank}", 100.0 - rank) for rank in range(1, 11)]
    by_ir_measures = [nDCG(cutoff=10).calc_aggregate([Qrel("q", f"d{rank}", 1)], judged) for rank in ranks]
    assert discounted_gains(1 / ranks) == pytest.approx(by_ir_measures)
    assert discounted_gains(np.zeros(2)).tolist() == [0.0, 0.0], "not among the ten"
