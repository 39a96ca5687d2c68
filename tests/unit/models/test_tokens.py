"""Tokens: flat ids, row selection, bags."""

import numpy as np

from noisyir.models.text_tokenizer import Tokens, passage_text
from tests.tiny_models import tiny_encoder

THREE = Tokens(np.array([5, 6, 7, 8, 9], np.int32), np.array([0, 2, 2, 5]))


def as_lists(tokens):
    return [tokens.ids[a:b].tolist() for a, b in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)]


def test_take_gives_the_texts_at_the_rows_in_their_order():
    assert as_lists(THREE.take(np.array([2, 1, 0, 2]))) == [[7, 8, 9], [], [5, 6], [7, 8, 9]]
    assert as_lists(THREE.take(np.array([], np.int64))) == []


def test_adding_appends_texts():
    assert as_lists(THREE + THREE.take(np.array([0]))) == [[5, 6], [], [7, 8, 9], [5, 6]]
    assert len(THREE + THREE) == 6


def test_a_transformers_texts_have_special_tokens_prefix_and_are_cut_to_the_sides_length(bert):
    encoder = tiny_encoder(bert, backbone="transformer", query_prefix="w1 ", query_max_len=5)
    assert as_lists(encoder.tokenize(["w9", ""], "query")) == [[2, 5, 13, 3], [2, 5, 3]]
    assert as_lists(encoder.tokenize(["w2 w3 w4 w5 w6"], "query")) == [[2, 5, 6, 7, 3]]
    assert as_lists(encoder.tokenize(["w9"], "passage")) == [[2, 13, 3]]


def test_a_static_models_texts_are_bags_whose_shares_sum_to_one(bert):
    tokens = tiny_encoder(bert).tokenize(["w3 w1 w3 w3", "", "w0"], "passage")
    assert as_lists(tokens) == [[5, 7], [], [4]]
    np.testing.assert_allclose(tokens.shares, [1 / 4, 3 / 4, 1.0])


def test_many_texts_keep_their_order_across_the_tokenizers_batches(bert, monkeypatch):
    monkeypatch.setattr("noisyir.models.text_tokenizer._TEXTS_AT_ONCE", 3)
    tokens = tiny_encoder(bert).tokenize([f"w{i}" for i in range(10)], "query")
    assert as_lists(tokens) == [[4 + i] for i in range(10)]


def test_a_title_goes_before_the_text_and_no_title_leaves_no_trace():
    assert passage_text("Title", "text") == "Title text"
    assert passage_text("", "text") == "text"


def test_long_texts_give_the_tokens_that_reading_them_whole_gives(bert):
    rng = np.random.default_rng(0)
    spaces = [" ", "  ", "\n", "\n        ", "\t", "." * 40 + " ", " " * 300]
    texts = [
        "".join(f"w{rng.integers(70)}" + spaces[rng.integers(7)] for _ in range(rng.integers(2, 90))) for _ in range(60)
    ]
    texts += ["x" * 500, "w1" + " " * 900 + "w2", " " * 900]
    for backbone in ("static", "transformer"):
        tokenizer = tiny_encoder(bert, backbone=backbone)._tokenizers["passage"]
        assert any(len(tokenizer._head(text)) < len(text) for text in texts)
        whole = tokenizer.tokenizer.encode_batch(texts, add_special_tokens=backbone == "transformer")
        assert [sorted(set(ids)) if backbone == "static" else ids for ids in (e.ids for e in whole)] == as_lists(
            tokenizer(texts)
        )
