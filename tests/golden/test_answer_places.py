"""Places of answers in passages, spelt out."""

import pytest

from noisyir.readers.answer_spans import places


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("He left New  York.", ["new york"], ["New  York"]),  # several tokens, and the text's own spaces
        ("the U.S. army", ["U.S."], ["U.S."]),
        ("party art", ["art"], ["art"]),  # whole tokens only
        ("a a a", ["a a"], ["a a", "a a"]),  # places may overlap
        ("Nikola Tesla", ["Tesla", "Nikola Tesla"], ["Nikola Tesla", "Tesla"]),  # or lie within each other
        ("Beyonce\u0301, Beyonc\u00e9", ["BEYONC\u00c9"], ["Beyonce\u0301", "Beyonc\u00e9"]),
        ("a\u0323\u0301 a\u0301\u0323", ["\u1ea1\u0301"], ["a\u0323\u0301", "a\u0301\u0323"]),  # order of marks
        ("\ud55c\uad6d", ["\u1112\u1161\u11ab\u1100\u116e\u11a8"], ["\ud55c\uad6d"]),  # one character, three parts
        ("\u0391\u03a3", ["\u03b1\u03c2"], ["\u0391\u03a3"]),  # final sigma
        ("all of it", ["all of it"], ["all of it"]),
        ("anything", ["", " \x00"], []),
        ("", ["a"], []),
        ("x \u2260 y", ["="], []),  # within a character
    ],
)
def test_the_places_of_answers(text, answers, found):
    assert [text[start:end] for start, end in places(text, answers)] == found


def test_offsets_count_characters_whatever_was_decomposed_before_them():
    text = "\u00c5\u00e9\ud55c " * 500 + "the end"
    assert places(text, ["The End"]) == [(2000, 2007)]
