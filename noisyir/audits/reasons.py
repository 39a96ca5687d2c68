"""The reason for a verdict on a pair or a candidate, in one sentence with numbers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from noisyir.base.pages.cells import percent

_NEARLY_SAME = 0.6  # overlap; texts of 100 words that differ in 20 have 0.67
_SOME = 0.3
_CLOSE = 0.8  # cosine


@dataclass(frozen=True)
class Evidence:
    """Evidence on a pair.

    Attributes:
        suspicion: The share of the pairs that are less suspect.
        p_clean: The chance of being right, if judgements tell it.
        rank: The document's rank for its query; None if not found or not searched.
        similarity: Similarity of query and document; None if not searched.
        better: The first words of the best other document, empty if it is not shown; None if none fits better.
        shared: Number of words in both texts, common ones left out.
        vague: Whether the query is a question that names nothing.
    """

    verdict: str | None
    by_hand: bool
    suspicion: float
    p_clean: float | None
    rank: int | None
    similarity: float | None
    better: str | None
    shared: int
    vague: bool = False


def reason(pair: Evidence) -> str:
    """The strongest evidence: a person's verdict, else rank and better documents, else shared words and place."""
    if pair.by_hand:
        return f"Judged {pair.verdict} by hand."
    if pair.vague and pair.verdict != "clean":
        return f"The question names nothing to know its document by; {_place(pair)}."
    if pair.better is not None and pair.similarity is not None:
        return _beside_better(pair, pair.better)
    if pair.rank == 1:
        first = "The document is found first for its query"
        return f"{first}, but {_place(pair)}." if pair.verdict in ("wrong", "suspect") else f"{first}."
    fit = f"is found at rank {pair.rank:,}" if pair.rank else f"shares {_count(pair.shared)} with the query"
    return f"The document {fit}; {_place(pair)}."


def _place(pair: Evidence) -> str:
    """The pair's place among all, and its chance if known."""
    known = "" if pair.p_clean is None else f" (chance of being right {chance(pair.p_clean)})"
    return f"{math.floor(100 * pair.suspicion)} % of the pairs are less suspect{known}"


def chance(p: float | None) -> str:
    """A probability to two places, never shown as certain; a dash if unknown."""
    if p is None:
        return "\N{EN DASH}"
    if p < 0.005:
        return "<0.01"
    return ">0.99" if p > 0.995 else f"{p:.2f}"


def apart(high: float, low: float) -> tuple[str, str]:
    """Both numbers to two to six places, as many as distinguish them."""
    for places in range(2, 7):
        if f"{high:.{places}f}" != f"{low:.{places}f}":
            break
    return f"{high:.{places}f}", f"{low:.{places}f}"


def _beside_better(pair: Evidence, other: str) -> str:
    others = {None: "many others fit", 1: "another fits", 2: "another fits"}.get(
        pair.rank, f"{(pair.rank or 1) - 1:,} others fit"
    )
    joined = "but" if pair.shared else "and"
    place = f"; {_place(pair)}" if pair.verdict == "clean" else ""
    best = f" Best other: \N{LEFT DOUBLE QUOTATION MARK}{other}\N{RIGHT DOUBLE QUOTATION MARK}" if other else ""
    return f"The document shares {_count(pair.shared)} with the query, {joined} {others} better{place}.{best}"


def _count(shared: int) -> str:
    return {0: "no important word", 1: "1 important word"}.get(shared, f"{shared} important words")


def suspicion(
    score: float | None,
    positive_score: float | None,
    similarity: float | None,
    overlap: float | None,
    against: Iterable[tuple[str, float, float]],
    kept_by: Sequence[str],
) -> str:
    """The reason against a candidate: its scores and likeness next to its positive's, and the judges' verdicts.

    Args:
        against: Each judge that drops it, with the score and the bound below it.
    """
    found = [_scored(score, positive_score), _like_the_positive(similarity, overlap), _judged(against, kept_by)]
    text = "; ".join(part for part in found if part)
    return f"{text[0].upper()}{text[1:]}."


def _scored(score: float | None, positive_score: float | None) -> str:
    if score is None or positive_score is None:
        return ""
    own, positive = apart(score, positive_score)
    if own == positive:
        return f"scores {score:.2f}, as its positive does"
    return f"scores {own}, {'above' if score > positive_score else 'below'} its positive's {positive}"


def _like_the_positive(similarity: float | None, overlap: float | None) -> str:
    share = overlap or 0.0
    if share == 1:
        return "the same words as the positive"
    if share >= _NEARLY_SAME:
        return f"nearly the same words as the positive ({percent(share)} shared)"
    if share >= _SOME:
        return f"{percent(share)} of the words shared with the positive"
    if similarity is not None and similarity >= _CLOSE:
        return f"close to the positive (cosine {similarity:.2f})"
    return ""


def _judged(against: Iterable[tuple[str, float, float]], kept_by: Sequence[str]) -> str:
    said = ["{} ({}, bound {})".format(judge, *apart(score, bound)) for judge, score, bound in against]
    kept = f", kept by {_and(kept_by)}" if kept_by else ""
    return f"not kept by {_and(said)}{kept}"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
