"""Spans keep their characters through tokens and windows; windows cover passages and hold the spans trained on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.models.question_passage import PairTokenizer
from noisyir.models.weights import locate_weights
from noisyir.readers.answer_spans import places, window_around, window_starts
from noisyir.readers.model import all_windows

WORDS = [
    "Ávila", "naïve", "C++", "(1990)", "3,000", "U.S.", "l'été", "東京", "straße", "antidisestablishmentarianism",
    "x", "Dvořák", "—", "“Tosca”", "\t", "e\u0301lan", "Zürich-West", "😀", "\u200b",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    text = (locate_weights("minilm") / "tokenizer.json").read_text("utf-8")
    return PairTokenizer.from_json(text, max_len=24, question_max_len=6, pad=0)


@given(st.integers(1, 300), st.integers(2, 60), st.integers(0, 80))
def test_windows_cover_a_passage_and_hold_every_span_that_they_share_room_for(length, room, stride):
    starts = window_starts(length, room, stride)
    assert starts[0] == 0 and min(starts[-1] + room, length) == length and (np.diff(starts) > 0).all()
    shared = min(stride, room // 2)
    assert length <= room or starts[-1] + room == length
    for first in range(0, max(length - shared, 1)):
        stop = min(first + max(shared, 1), length)
        assert any(start <= first and stop <= start + room for start in starts)


@given(st.integers(1, 300), st.integers(2, 60), st.data())
def test_the_window_around_a_span_is_one_of_those_and_holds_it_if_it_is_short(length, room, data):
    first = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(first + 1, length))
    (start,), (held,) = window_around(*(np.array([value]) for value in (first, stop, length, room)))
    assert start in window_starts(length, room, room // 2)
    assert held == (start <= first and stop <= start + room)
    assert held or stop - first > room // 2
    if held and room < length:
        others = [one for one in window_starts(length, room, room // 2) if one <= first and stop <= one + room]
        edge = [min(first - one, one + room - stop) for one in others]
        assert min(first - start, start + room - stop) >= max(edge) - 1 or start in (0, length - room)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40), st.data())
def test_the_text_of_a_spans_tokens_is_the_answer(tokenizer, words, data):
    text = " ".join(words)
    begin = data.draw(st.integers(0, len(words) - 1))
    answer = " ".join(words[begin : begin + data.draw(st.integers(1, 3))])
    read = tokenizer.passages([text])
    for start, end in places(text, [answer]):
        first, stop = read.token_span(0, start, end)
        assert first < stop
        found = text[read.start[first] : read.end[stop - 1]]
        assert text[start:end] in found and found.strip() == text[start:end].strip()
        around, held = window_around(*(np.array([value]) for value in (first, stop, len(read.tokens.ids), 12)))
        if held[0]:
            window = read.windows(np.array([0]), around, np.minimum(around + 12, len(read.tokens.ids)))
            inside = window.ids[first - around[0] : stop - around[0]]
            assert inside.tolist() == read.tokens.ids[first:stop].tolist()


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=60), min_size=1, max_size=4))
def test_joined_sequences_hold_question_and_window_between_special_tokens(tokenizer, passages):
    read = tokenizer.passages([" ".join(words) for words in passages])
    questions = tokenizer.questions(["Who wrote the opera " * 3] * len(passages))
    assert set(questions.lengths) == {6} and set(tokenizer.room(questions)) == {24 - 3 - 6}
    windows = all_windows(read.tokens.lengths, tokenizer.room(questions), 4)
    assert set(windows.pair) == set(np.flatnonzero(read.tokens.lengths))
    if not len(windows.pair):
        return
    texts = read.windows(windows.pair, windows.first, windows.stop)
    joined = tokenizer.join(questions.take(windows.pair), texts)
    assert (joined.present.sum(axis=1) == 6 + 3 + texts.lengths).all() and joined.ids.shape[1] <= 24
    assert joined.ids[joined.question].tolist() == questions.take(windows.pair).ids.tolist()
    assert joined.ids[joined.passage].tolist() == texts.ids.tolist()
    assert (joined.ids[:, 0] == 101).all() and (joined.ids[:, 7] == 102).all() and not joined.ids[~joined.present].any()
    assert (joined.types == joined.passage + 0 + (np.cumsum(joined.passage, axis=1) == texts.lengths[:, None])
            * joined.present * ~joined.passage).all()  # fmt: skip


def test_pairs_are_joined_as_the_models_own_tokenizer_joins_them(tokenizer):
    from transformers import AutoTokenizer

    question, passages = "When was Dvořák born?", ["He was born in 1841.", "In Nelahozeves, near Prague; 1841 it was"]
    theirs = AutoTokenizer.from_pretrained(locate_weights("minilm"))([question] * 2, passages, padding=True)
    wide = PairTokenizer.from_json(
        (locate_weights("minilm") / "tokenizer.json").read_text("utf-8"), max_len=64, question_max_len=32, pad=0
    )
    ours = wide.join(wide.questions([question] * 2), wide.passages(passages).tokens)
    assert ours.ids.tolist() == theirs["input_ids"] and ours.types.tolist() == theirs["token_type_ids"]
    assert ours.present.astype(int).tolist() == theirs["attention_mask"]
