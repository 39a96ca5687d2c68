"""What is read word by word is what the tokenizer reads whole, whatever the text."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.models import text_tokenizer
from noisyir.models.text_tokenizer import TextTokenizer, WordReader, word_reader
from noisyir.models.weights import locate_weights

JSON = (locate_weights("minilm") / "tokenizer.json").read_text(encoding="utf-8")
AWKWARD = (
    "[MASK]", "[mask]", "[MA\x00SK]", "[CLS][SEP]", "[[PAD]]", "[UNK", "a\u0301", "\u0301", "<\u0338", "\u226e",
    "q\u0307\u0323", "\u0130", "\xdf", "\u1e9e", "\u03c2", "\u03a3", "\u4e2d\u6587", "\uac00", "\u1100\u1161", "\u212a",
    "\ufffd", "\x00", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "\u200b", "\u200d", "\ufeff", "\u00ad",
    "\U0001f469\u200d\U0001f52c", "\u2026", "\u2014", "don't", "U.S.A.", "x" * 99, "x" * 101, "na\xefve", "\t", "\r\n",
    "\n\n  ", "  ", "\ufb01",
)  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(AWKWARD), st.sampled_from(" .-a1"), st.text(max_size=6)), max_size=14)


READERS = [
    TextTokenizer.from_json(JSON, prefix="", max_len=max_len, special_tokens=special, as_shares=False)
    for max_len, special in ((4, False), (9, True), (64, True), (256, False))
]


@settings(deadline=None, max_examples=300)
@given(st.lists(TEXTS.map("".join), min_size=1, max_size=5), st.sampled_from(READERS))
def test_words_give_the_ids_that_whole_texts_give(texts, tokenizer):
    assert tokenizer.words
    by_words, whole = tokenizer(texts), replace(tokenizer, words=None)(texts)
    np.testing.assert_array_equal(by_words.ids, whole.ids)
    np.testing.assert_array_equal(by_words.offsets, whole.offsets)


def test_no_more_words_are_remembered_than_the_bound(monkeypatch):
    monkeypatch.setattr(text_tokenizer, "_MOST_WORDS", 50)
    reader = READERS[-1].words
    texts = [f"w{number} v{number} {'y' * 70}" for number in range(200)]
    parts = []
    for start in range(0, 200, 10):
        parts.append(READERS[-1](texts[start : start + 10]))
        assert len(reader._known) <= 50
        assert not any(len(word) > 64 for word in reader._known)
    whole = replace(READERS[-1], words=None)(texts)
    np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), whole.ids)


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"normalizer": None},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}},
        {"added_tokens": [{"id": 0, "content": "[PAD]", "single_word": True, "lstrip": False, "rstrip": False,
                           "normalized": False, "special": True}]},
        {"added_tokens": [{"id": 0, "content": "[PAD]", "single_word": False, "lstrip": False, "rstrip": False,
                           "normalized": True, "special": False}]},
    ],
)  # fmt: skip
def test_what_may_look_at_neighbours_is_read_whole(change):
    assert isinstance(word_reader(JSON), WordReader)
    assert word_reader(json.dumps(json.loads(JSON) | change)) is None
