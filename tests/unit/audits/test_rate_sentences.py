"""What is said of the noise rate: never one number that rests on an assumption without the assumption."""

import math

import pytest

from noisyir.detection.rate_sentences import beside, by_each_null, cannot_be_known, in_terminal, why_none_is_flagged
from noisyir.detection.verdicts import nulls_in

PAIRS = {"pairs": 3000, "beside": 180, "trusted": 0.99}
FITS = {"rate": 0.24, "low": 0.221, "high": 0.259, "counted": 360, "tail": 0.5, "fit": 1.0, "auroc": 0.87, **PAIRS}
HARD = {"rate": 0.46, "low": 0.44, "high": 0.484, "counted": 690, "tail": 0.95, "fit": 0.0, "auroc": 0.75, **PAIRS}
EASY = {"rate": 0.02, "low": 0.015, "high": 0.027, "counted": 30, "tail": 0.1, "fit": 0.0, "auroc": 0.98, **PAIRS}
BLIND = {**FITS, "auroc": 0.5}


def estimate(**nulls):
    return {f"{null}.{name}": value for null, values in nulls.items() for name, value in values.items()}


def rates(**nulls):
    return [said.rate for said in by_each_null(estimate(**nulls))]


def test_each_null_has_its_line_and_the_range_comes_last():
    told = in_terminal(estimate(random=FITS, near=HARD, lexical=EASY), "random").splitlines()
    assert told == [
        "How many are wrong?  Not known without judgements: judge 50 pairs to know it.",
        "  if wrong pairs have random documents                       24 % [22, 26]; the scores agree with that",
        "  if wrong pairs have neighbours of the best other document  "
        "at most 48 %; made-up pairs of this kind fit better than yours",
        "  if wrong pairs have documents with the query's words       "
        "says little: these made-up pairs are too easy to tell from yours",
        "  if they have any of these                                  0 to 48 %",
        "  if they are wrong in other ways                            "
        "it cannot be known: half an answer, or one with a wrong name, is like a right one to all detectors",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "24 % [22, 26]; the scores agree with that"),
        (
            {"trusted": 0.9},
            "at most 26 %; right pairs may look like these made-up ones (AUROC 0.87): too weak to count",
        ),
        ({"auroc": 0.5}, "any rate is possible: these made-up pairs look no more suspect than yours (AUROC 0.50)"),
        ({"rate": 0.04, "high": 0.05}, "at most 5.0 %; hardly any of your pairs looks like that"),
        ({"fit": math.nan}, "24 % [22, 26]; this cannot be checked with so few pairs, or so few made up for each"),
        (
            {"rate": 0.0, "low": 0.0, "high": 0.0013, "counted": 0},
            "at most 0.1 %; hardly any of your pairs looks like that",
        ),
    ],
)
def test_what_one_null_says_and_how_far_it_may_be_believed(changes, words):
    assert rates(random={**FITS, **changes})[0].startswith(words)


def test_where_no_made_up_pair_is_like_the_wrong_ones_it_cannot_be_known():
    assert rates(random=EASY, near=EASY)[-2].startswith("it cannot be known")
    assert rates(random=EASY, near=HARD)[-2].startswith("it cannot be known")
    assert rates()[-2].startswith("it cannot be known")
    assert rates(random=FITS)[-2] == "22 to 26 %"
    assert rates(random=FITS, near={**HARD, "high": 1.0})[-2].startswith("any rate is possible")
    assert rates(random={**EASY, "counted": 3})[-2] == (
        "0 to 2.7 %; hardly any is wrong in these ways; in all it cannot be known"
    )
    few = {**FITS, "counted": 14, "rate": 0.06, "low": 0.04, "high": 0.09}
    assert rates(random=few)[-2].startswith("it cannot be known: too few"), "half answers look like this, too"
    cases = ({"random": EASY}, {"near": HARD}, {"near": few}, {"near": FITS}, {"near": FITS, "random": few})
    known = [cannot_be_known(nulls_in(estimate(**nulls))) for nulls in cases]
    assert known == [True, True, True, False, False]


def test_without_an_assumption_the_terminal_says_only_how_to_know():
    assert in_terminal(estimate(random=FITS), None).splitlines() == [
        "How many are wrong?  Not known without judgements: judge 50 pairs to know it.",
        "                     --assume random shows it if wrong documents are random.",
    ]
    assert in_terminal(estimate(random=FITS), None, called_wrong=1216).splitlines()[:2] == [
        "How many are wrong besides the 1,216?",
        "                     Not known without judgements: judge 50 pairs to know it.",
    ]


def test_why_none_is_flagged_names_both_causes_where_two_look_alike():
    said = why_none_is_flagged(estimate(random=BLIND, near=BLIND))
    assert "either all of yours are wrong, or the detectors know nothing" in said and "judge 20" in said
    assert why_none_is_flagged(estimate(random={**EASY, "counted": 3})).startswith("hardly any pair looks")
    assert why_none_is_flagged(estimate(random=BLIND, near=HARD)).startswith("the scores alone cannot separate")
    assert why_none_is_flagged({}).startswith("the scores alone cannot separate")


def test_scores_beside_a_pairs_own_are_told_by_their_middle():
    row = {"random_scores": [3.0, 1.0, 2.0], "near_scores": [0.5, math.nan], "lexical_scores": None}
    says = ", and 2.000 with documents drawn at random, 0.500 with documents much like the best other one in its place"
    assert beside(row) == says
    assert beside({"random_scores": [math.nan]}) == ""
