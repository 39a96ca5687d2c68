"""Answer matching as DPR's evaluation does it."""

import pytest

from noisyir.data.answers import answer_match, tokens
from tests.has_answer import contains, has_answer


def test_tokens_are_runs_of_letters_digits_and_marks_or_single_other_characters():
    assert tokens("Don't pay $3.50, O.K.?") == [
        "don",
        "'",
        "t",
        "pay",
        "$",
        "3",
        ".",
        "50",
        ",",
        "o",
        ".",
        "k",
        ".",
        "?",
    ]


def test_separators_and_control_characters_are_no_tokens():
    assert tokens("a\u00a0b\u2003c\x00d\te\u200bf") == ["a", "b", "c", "d", "e", "f"]


def test_composed_and_decomposed_accents_are_the_same():
    composed, decomposed = "Beyonc\u00e9", "Beyonce\u0301"
    assert tokens(composed) == tokens(decomposed) == ["beyonce\u0301"]
    assert has_answer([composed], f"It was {decomposed}, of course")


def test_the_greek_final_sigma_is_lower_cased_token_by_token():
    assert tokens("\u039f\u0394\u039f\u03a3'\u0391") == ["\u03bf\u03b4\u03bf\u03c2", "'", "\u03b1"]


def test_an_accent_is_part_of_the_word():
    assert not has_answer(["Beyonce"], "Beyonc\u00e9 sang")


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("New York", "He left new york.", True),
        ("New York", "New, York", False),  # punctuation is a token
        ("the beach", "on the beach", True),
        ("the beach", "on a beach", False),  # articles are tokens
        ("art", "party", False),  # whole tokens only
        ("1.5", "a 1.50 price", False),
        ("U.S.", "the U.S. army", True),
        ("York New", "New York", False),
        ("\u6771\u4eac", "\u6771\u4eac", True),
    ],
)
def test_an_answer_is_a_contiguous_sub_list_of_tokens(answer: str, text: str, expected: bool):
    assert has_answer([answer], text) is expected
    assert contains(tokens(text), tokens(answer)) is expected


def test_an_answer_that_tokenises_to_nothing_matches_nothing():
    assert not has_answer(["", " \x00 "], "anything") and not contains(["anything"], [])
    assert has_answer(["", "thing"], "any thing")


def test_answer_match_is_a_hit_rate_at_each_depth():
    texts = {"a": "in Paris", "b": "nothing", "c": "Paris, Texas"}
    rankings = {"q1": ["b", "c", "a"], "q2": ["a"], "q3": ["b"]}
    aliases = {"q1": ["paris"], "q2": ["Paris"], "q3": ["Paris"], "q4": ["Paris"], "empty": [" "]}
    got = answer_match(rankings, aliases, texts, [1, 2])
    at_1, at_2 = [0, 1, 0, 0], [1, 1, 0, 0]  # q4 has no hits and counts 0; `empty` cannot be judged
    assert got["value"].to_pylist() == at_1 + at_2
    assert got["measure"].unique().to_pylist() == ["AnswerMatch@1", "AnswerMatch@2"]
    assert got["query_id"].to_pylist() == ["q1", "q2", "q3", "q4"] * 2
