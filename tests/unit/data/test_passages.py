"""Long texts are cut where sentences end, nothing is lost, and a query finds the passage that it is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.data.passages import PassageWords, best_passage, cut

words = st.text("ab.!?漢字 é\n", min_size=1, max_size=6)
texts = st.lists(words, max_size=60).map(" ".join)


@given(texts, st.integers(1, 12), st.integers(0, 5))
def test_no_word_is_lost_and_no_passage_is_too_long(text, most, overlap):
    overlap = min(overlap, (most - 1) // 2)
    passages = cut(text, most, overlap)
    counted = [len(cut(passage, 1)) for passage in passages]  # passages of one word are words
    assert max(counted) <= most
    assert all(passage in text for passage in passages)
    if overlap == 0:
        assert "".join("".join(passages).split()) == "".join(text.split())
    at = 0
    for passage in passages:  # in their order, each beginning before or where the last one ended
        at = text.index(passage, at) + 1
    assert sum(counted) <= len(cut(text, 1)) + overlap * (len(passages) - 1)


def test_a_text_of_as_many_words_stays_as_it_stands():
    assert cut("  one two\nthree ", 3) == ["  one two\nthree "]
    assert cut("", 3) == [""]


def test_passages_end_with_sentences_and_are_about_equally_long():
    text = "One two three four. Five six seven eight nine. Ten eleven twelve. Thirteen fourteen."
    assert cut(text, 9) == ["One two three four. Five six seven eight nine.", "Ten eleven twelve. Thirteen fourteen."]
    long = " ".join(str(number) for number in range(100))  # no sentence ends: no short rest is left either
    assert [len(passage.split()) for passage in cut(long, 30)] == [25, 25, 25, 25]


def test_an_overlap_begins_with_a_sentence_where_one_begins():
    text = "a b c d e f. g h i. j k l m n o p q r s t."
    first, second, *_ = cut(text, 10, overlap=4)
    assert first.endswith("g h i.") and second.startswith("g h i.")


def test_paragraphs_end_without_a_stop_and_chinese_signs_are_words():
    assert cut("a short heading\n\nits text goes on", 4)[0] == "a short heading"
    assert cut("漢字漢字。漢字漢字。", 5) == ["漢字漢字。", "漢字漢字。"]


@pytest.mark.parametrize(
    ("query", "answers", "expected"),
    [("who sat on the mat?", (), 1), ("who sat on the mat?", ("a dog",), 2), ("zebra", (), 0), ("the", (), 0)],
)
def test_the_best_passage_has_the_answer_or_the_rarest_of_the_querys_words(query, answers, expected):
    passages = ["The house. On the hill.", "The cat sat on the mat.", "The door is by the mat; a dog sat there."]
    assert best_passage(query, [*map(PassageWords, passages)], answers) == expected
