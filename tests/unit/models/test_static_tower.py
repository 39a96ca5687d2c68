"""The static tower's hand-written gradient against torch's dense one."""

import numpy as np
import torch
from torch import nn

from tests.tiny_models import tiny_encoder


def test_vectors_and_gradient_are_those_of_a_dense_embedding_bag(bert):
    texts = ["w3 w1 w3 w3 w59", "", "w0 w1", "w2"]
    tower = tiny_encoder(bert, similarity="dot").passage_tower
    dense = nn.EmbeddingBag.from_pretrained(tower.weight.detach().clone(), freeze=False, mode="mean")
    flat, offsets = torch.tensor([7, 5, 7, 7, 63, 4, 5, 6]), torch.tensor([0, 5, 5, 7])
    slope = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32))

    expected = dense(flat, offsets)
    expected.backward(slope)
    vectors = tower(tiny_encoder(bert).tokenize(texts, "passage"))
    vectors.backward(slope)

    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(tower.weight.grad.to_dense(), dense.weight.grad, atol=1e-6, rtol=1e-6)


def test_the_gradient_holds_the_batchs_rows_once_each_and_no_others(bert):
    encoder = tiny_encoder(bert)
    vectors = encoder.embed(encoder.tokenize(["w3 w1 w3", "w1 w8"], "passage"), "passage")
    vectors.sum().backward()
    assert encoder.passage_tower.weight.grad._indices()[0].tolist() == [5, 7, 12]


def test_both_sides_of_a_shared_tower_in_one_call_equal_two_calls(bert):
    encoder = tiny_encoder(bert)
    queries, passages = encoder.tokenize(["w1 w2", "w3"], "query"), encoder.tokenize(["w2 w9", ""], "passage")
    together = encoder.embed_both(queries, passages)
    for vectors, tokens, side in zip(together, (queries, passages), ("query", "passage"), strict=True):
        torch.testing.assert_close(vectors, encoder.embed(tokens, side))
