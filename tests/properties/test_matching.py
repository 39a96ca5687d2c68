"""Places of answers: the answer stands there, and nowhere else."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from noisyir.data.answers import tokens
from noisyir.readers.answer_spans import places
from tests.has_answer import has_answer

# Few enough letters that answers occur; marks that NFD reorders, letters that it takes apart, signs it takes apart.
LETTERS = "aAbéÅẻİΣσςßﬁ한\u0301\u0323\u0307 \u00a0\u200b\x00.,'-$¥1٣日≠=΅𝅗𝅥𝐀"  # noqa: RUF001
TEXTS = st.text(st.sampled_from(LETTERS), max_size=40) | st.text(max_size=30)
ANSWERS = st.lists(st.text(st.sampled_from(LETTERS), max_size=4) | st.text(max_size=4), max_size=4)


@given(TEXTS, ANSWERS)
@example("a\u0301\u0323b \u0301", ["\u0301", "ạ\u0301b"])
@example("x ≠ y", ["=", "≠", "\u0338"])
def test_what_stands_at_a_place_is_an_answer_under_the_normalisation(text, answers):
    wanted = [tokens(answer) for answer in answers]
    found = places(text, answers)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(tokens(text[start:end]) in wanted for start, end in found)
    assert found == sorted(set(found))


@given(TEXTS, st.data())
def test_every_stretch_of_whole_tokens_is_found_wherever_it_stands(text, data):
    starts = range(len(text) + 1)
    start, end = sorted(data.draw(st.tuples(st.sampled_from(starts), st.sampled_from(starts))))
    alias = unicodedata.normalize(data.draw(st.sampled_from(["NFC", "NFD"])), text[start:end]).upper()
    before, inside, after = tokens(text[:start]), tokens(text[start:end]), tokens(text[end:])
    whole = before + inside + after == tokens(text)
    if whole and inside and tokens(alias) == inside:
        found = places(text, [alias])
        assert any(start <= first and last <= end and tokens(text[first:last]) == inside for first, last in found)


@given(TEXTS, ANSWERS)
def test_a_text_has_a_place_only_if_it_has_an_answer_and_always_where_no_character_falls_apart(text, answers):
    found = bool(places(text, answers))
    assert not found or has_answer(answers, text)
    apart = any(len({unicodedata.category(part)[0] in "LNM" for part in unicodedata.normalize("NFD", character)}) > 1
                for character in text)  # fmt: skip
    assert found == has_answer(answers, text) or apart
