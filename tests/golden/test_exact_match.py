"""Exact match and F1 as SQuAD's and TriviaQA's scripts define them."""

import pytest

from noisyir.retrieval.answer_measures import best_f1, exact_match, f1, normalised


@pytest.mark.parametrize(
    ("text", "squad", "triviaqa"),
    [
        ("The  U.S. Army!", "us army", "u s army"),
        ("a cat, an owl", "cat owl", "cat owl"),
        ("rock'n'roll", "rocknroll", "rock n roll"),
        ("rock\u2019n\u2019roll", "rock\u2019n\u2019roll", "rock n roll"),
        ("snake_case", "snakecase", "snake case"),
        ("another theme", "another theme", "another theme"),
        ("a", "", ""),
    ],
)
def test_the_two_normalisations(text, squad, triviaqa):
    assert normalised(text, "squad") == squad
    assert normalised(text, "triviaqa") == triviaqa


def test_exact_match_is_equality_with_any_reference():
    assert exact_match("the Eiffel tower.", ["Paris", "Eiffel Tower"], "squad") == 1
    assert exact_match("Eiffel", ["Eiffel Tower"], "squad") == 0
    assert exact_match("U.S.", ["us"], "squad") == 1 and exact_match("U.S.", ["us"], "triviaqa") == 0
    assert exact_match("", [], "squad") == 0


def test_f1_is_of_bags_of_words():
    # given: new york york city; wanted: york city hall; shared: york, city
    assert f1("New York, York city", "York City Hall", "squad") == pytest.approx(
        2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3)
    )
    assert f1("x", "y", "squad") == 0 and f1("", "y", "squad") == 0 and f1("the", "a", "squad") == 0
    assert best_f1("York", ["Paris", "New York"], "squad") == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert best_f1("York", [], "squad") == 0
