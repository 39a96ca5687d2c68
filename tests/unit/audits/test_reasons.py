"""Reasons are one sentence with the strongest numbers."""

import pytest

from noisyir.audits.reasons import Evidence, chance, reason, suspicion

PAIR = {
    "verdict": "wrong",
    "by_hand": False,
    "suspicion": 0.987,
    "p_clean": 0.02,
    "rank": None,
    "similarity": None,
    "better": None,
    "shared": 0,
}
CANDIDATE = {
    "score": None,
    "positive_score": None,
    "similarity": None,
    "overlap": None,
    "against": [("sieve", 0.8, 0.5)],
    "kept_by": [],
}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            {"better": "An apple", "similarity": 0.22, "rank": 1240, "shared": 3},
            "The document shares 3 important words with the query, but 1,239 others fit better. Best other: “An apple”",
        ),
        (
            {"better": "", "similarity": 0.7121, "rank": 2, "shared": 0, "verdict": "clean"},
            "The document shares no important word with the query, and another fits better; "
            "98 % of the pairs are less suspect (chance of being right 0.02).",
        ),
        (
            {"better": "An apple", "similarity": 0.1, "rank": None, "shared": 1, "verdict": None},
            "The document shares 1 important word with the query, but many others fit better. Best other: “An apple”",
        ),
        (
            {"vague": True, "better": "An apple", "similarity": 0.2, "rank": 9, "p_clean": None},
            "The question names nothing to know its document by; 98 % of the pairs are less suspect.",
        ),
        ({"rank": 1, "verdict": "clean", "vague": True}, "The document is found first for its query."),
        ({"rank": 1, "verdict": "clean"}, "The document is found first for its query."),
        ({"rank": 1, "verdict": None, "p_clean": None}, "The document is found first for its query."),
        (
            {"rank": 1},
            "The document is found first for its query, but 98 % of the pairs are less suspect (chance of being right "
            "0.02).",
        ),
        (
            {"verdict": None, "p_clean": None},
            "The document shares no important word with the query; 98 % of the pairs are less suspect.",
        ),
        (
            {"verdict": "clean", "suspicion": 0.0, "p_clean": 0.999, "shared": 1},
            "The document shares 1 important word with the query; 0 % of the pairs are less suspect (chance of being "
            "right >0.99).",
        ),
        ({"better": "An apple", "similarity": 0.22, "rank": 3, "by_hand": True}, "Judged wrong by hand."),
        ({"rank": 1, "by_hand": True, "verdict": "clean"}, "Judged clean by hand."),
    ],
)
def test_the_reason_is_one_sentence_with_the_strongest_numbers(known, said):
    assert reason(Evidence(**PAIR | known)) == said


def test_a_chance_is_never_shown_as_certain():
    assert [chance(p) for p in (0.0, 0.004, 0.006, 0.5, 0.994, 0.996, 1.0)] == [
        "<0.01", "<0.01", "0.01", "0.50", "0.99", ">0.99", ">0.99",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "Not kept by sieve (0.80, bound 0.50)."),
        (
            {"score": 0.7, "positive_score": 0.64},
            "Scores 0.70, above its positive's 0.64; not kept by sieve (0.80, bound 0.50).",
        ),
        (
            {"score": 0.5, "positive_score": 0.5},
            "Scores 0.50, as its positive does; not kept by sieve (0.80, bound 0.50).",
        ),
        ({"overlap": 1.0}, "The same words as the positive; not kept by sieve (0.80, bound 0.50)."),
        ({"overlap": 0.4}, "40 % of the words shared with the positive; not kept by sieve (0.80, bound 0.50)."),
        (
            {"overlap": 0.1, "similarity": 0.93},
            "Close to the positive (cosine 0.93); not kept by sieve (0.80, bound 0.50).",
        ),
        ({"kept_by": ["a", "b"]}, "Not kept by sieve (0.80, bound 0.50), kept by a and b."),
    ],
)
def test_the_reason_against_a_candidate_is_one_sentence_too(known, said):
    assert suspicion(**CANDIDATE | known) == said
