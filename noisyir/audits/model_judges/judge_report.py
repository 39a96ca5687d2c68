"""The report on a judge: its rate, its error, the corrected rate, and the cost."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from noisyir.audits.model_judges.judges import Answer, JudgeUsage
from noisyir.base.pages.cells import percent
from noisyir.detection.calibration.judge_error import (
    FEWEST_BY_PEOPLE,
    FEWEST_OF_A_KIND,
    JudgeCalibration,
    JudgeError,
    calibration,
    judge_error,
    rate_behind,
)
from noisyir.detection.calibration.queue import Draw
from noisyir.detection.judgements import HumanJudgement
from noisyir.detection.rate import Interval, powered_rate, rate_from_judgements

_EVEN = 1.5  # largest ratio of weights in a random sample that counts as even
_FAULTS_SHOWN = 3
_LEVEL = 0.05  # significance of the test of a judge's probabilities


class AskedPair(NamedTuple):
    """A pair, its draw, the judge's answer, and people's verdict if they decided on it."""

    draw: Draw
    answer: Answer | None
    people: HumanJudgement | None

    @property
    def says(self) -> bool | None:
        """Whether the judge calls it wrong; None if it does not decide."""
        return None if self.answer is None or self.answer.verdict == "unclear" else self.answer.verdict == "wrong"

    @property
    def is_wrong(self) -> bool:
        """Whether people call it wrong."""
        return self.people is not None and self.people.verdict == "wrong"


class CorrectedRate(NamedTuple):
    """The rate without the judge's error, and how it was corrected."""

    rate: Interval
    by: Literal["people and judge", "sensitivity and specificity"]


class JudgeReport(NamedTuple):
    """The result of asking.

    Attributes:
        said: The share of the `decided` random pairs that the judge calls wrong; None if it decided none.
        error: The judge's error on pairs that people judged, too.
        at_random: Whether those were drawn at random.
    """

    judge: str
    pairs: int
    asked: int
    answered: int
    unclear: int
    drawn: int
    decided: int
    said: Interval | None
    error: JudgeError
    calibration: JudgeCalibration | None
    at_random: bool
    corrected: CorrectedRate | None
    spent: JudgeUsage
    confidence: float

    def summary(self) -> str:
        """The report for a terminal."""
        lines = [self._asked(), *self._in_words(), self._said(), *self._errs(), self._took()]
        if self.spent.faults:
            most = self.spent.faults.most_common(_FAULTS_SHOWN)
            lines.append(f"{'no answer':<12}{'; '.join(f'{count:,} x {said}' for said, count in most)}")
        if self.spent.stopped is not None:
            lines.append(f"{'stopped':<12}{self.spent.stopped}; the answers so far are kept")
        return "\n".join(lines)

    def _asked(self) -> str:
        kept = f", {self.spent.kept:,} of them kept from before" if self.spent.kept else ""
        unclear = f", {self.unclear:,} unclear" if self.unclear else ""
        left = f"; {self.spent.left:,} more were not reached" if self.spent.left else ""
        return f"{'judge':<12}{self.judge}: asked {self.asked:,} pairs, answered {self.answered:,}{unclear}{kept}{left}"

    def _in_words(self) -> list[str]:
        why = self.spent.in_words
        return [f"{'in words':<12}its words were taken, for it gives no probability ({why})"] if why else []

    def _said(self) -> str:
        if self.said is None:
            return f"{'it says':<12}nothing of the rate: none of the {self.drawn:,} pairs drawn at random was decided"
        rate = f"{self.said} at {percent(self.confidence)}"
        drawn = f"{self.decided:,} decided of {self.drawn:,} pairs drawn at random"
        return f"{'it says':<12}{rate} wrong, by {drawn}; this does not count its own errors"

    def _errs(self) -> list[str]:
        error, both = self.error, self.error.wrong + self.error.clean
        if not both:
            return [f"{'its error':<12}unknown: people judged none of these pairs, so the rate cannot be corrected"]
        shares = [
            f"{does} {percent(share)} of the {count:,} that they call {kind}"
            for does, share, count, kind in (
                ("finds", error.sensitivity, error.wrong, "wrong"),
                ("passes", error.specificity, error.clean, "clean"),
            )
            if count
        ]
        drawn = "" if self.at_random else "; these were not drawn at random, and on the rest it may err differently"
        lines = [f"{'its error':<12}on {both:,} pairs that people judged, too, it {' and '.join(shares)}{drawn}"]
        lines += [f"{'its chances':<12}{said}" for said in in_short(self.calibration)]
        if self.corrected is None:
            return [*lines, f"{'corrected':<12}{self._why_not()}"]
        rate = f"{self.corrected.rate} at {percent(self.confidence)}"
        return [*lines, f"{'corrected':<12}{rate} wrong, by {self.corrected.by}"]

    def _why_not(self) -> str:
        error = self.error
        if self.said is None:
            return "not possible: no pair that was drawn at random was decided"
        if min(error.wrong, error.clean) >= FEWEST_OF_A_KIND:
            return "not possible: the judge does no better than a coin"
        return (
            f"not possible: too few pairs that both judged; it takes {FEWEST_OF_A_KIND} wrong and {FEWEST_OF_A_KIND} "
            f"clean ones, or {FEWEST_BY_PEOPLE} that were drawn at random"
        )

    def _took(self) -> str:
        spent = self.spent
        told = spent.prompt_tokens + spent.completion_tokens
        tokens = (
            f", {told:,} tokens ({spent.prompt_tokens:,} read, {spent.completion_tokens:,} written)" if told else ""
        )
        untold = f", {spent.unmetered:,} calls of unknown size" if told and spent.unmetered else ""
        return f"{'took':<12}{spent.calls:,} calls{tokens}{untold}"


def judge_report(
    judge: str, pairs: int, asked: Sequence[AskedPair], spent: JudgeUsage, confidence: float = 0.95
) -> JudgeReport:
    """The report on the answers; pairs: number in the audit, from which the random ones were drawn.

    The rate is prediction-powered if people judged enough of the random pairs; else the judge's sensitivity and
    specificity correct it, measured on random pairs if there are enough.
    """
    random = [one for one in asked if one.draw == "random"]
    decided = [one.says for one in random if one.says is not None]
    said = _rate(decided, pairs, confidence) if decided else None
    drawn = [one for one in asked if one.people is not None and one.people.weight is not None]
    both, by_chance = measured_on(asked)
    error = _error(both)
    answered = [one.answer for one in asked if one.answer is not None]
    return JudgeReport(
        judge=judge,
        pairs=pairs,
        asked=len(asked) - spent.left,
        answered=len(answered),
        unclear=sum(answer.verdict == "unclear" for answer in answered),
        drawn=len(random),
        decided=len(decided),
        said=said,
        error=error,
        calibration=_calibration(both),
        at_random=by_chance,
        corrected=_corrected(random, drawn, said, error, confidence),
        spent=spent,
        confidence=confidence,
    )


def measured_on(asked: Sequence[AskedPair]) -> tuple[list[AskedPair], bool]:
    """The pairs that measure the judge's error, and whether they are a random sample; all if that is too small."""
    both = [one for one in asked if one.people is not None]
    drawn = [one for one in both if one.people and one.people.weight is not None]
    enough = len(drawn) == len(both) or _error(drawn).can_be_corrected_for
    return (drawn, True) if enough else (both, False)


def _rate(wrong: Sequence[bool], pairs: int, confidence: float) -> Interval:
    one_stratum = np.zeros(len(wrong), int)
    return Interval(*rate_from_judgements(np.array(wrong), one_stratum, np.array([pairs]), confidence))


def _error(both: Sequence[AskedPair]) -> JudgeError:
    decided = [(one.says, one.is_wrong) for one in both if one.says is not None]
    says, truth = np.array(decided, bool).reshape(-1, 2).T
    return judge_error(says, truth)


def _calibration(both: Sequence[AskedPair]) -> JudgeCalibration | None:
    """The calibration of a judge's probabilities; None on too few pairs that people judged, too."""
    known = [(one.answer.p_wrong, one.is_wrong) for one in both if one.answer and one.answer.p_wrong is not None]
    if len(known) < FEWEST_BY_PEOPLE:
        return None
    p_wrong, is_wrong = zip(*known, strict=True)
    return calibration(np.array(p_wrong), np.array(is_wrong, bool))


def _corrected(
    random: Sequence[AskedPair], drawn: Sequence[AskedPair], said: Interval | None, error: JudgeError, confidence: float
) -> CorrectedRate | None:
    if said is not None and len(drawn) >= FEWEST_BY_PEOPLE and is_even(drawn):
        people = np.array([one.is_wrong for one in drawn])
        ends = ends_of([*random, *drawn])
        said_of_all, said_of_judged = surely_wrong(random, ends), surely_wrong(drawn, ends)
        by_judge, unsure = np.full(len(people), said_of_all.mean()), said_of_all.var() / len(said_of_all)
        alike = np.ones(len(people))
        found = powered_rate(people, alike, said_of_judged, by_judge, math.inf, confidence, unsure=unsure)
        return CorrectedRate(Interval(found.value, found.low, found.high), "people and judge")
    if said is not None and error.can_be_corrected_for:
        rate = rate_behind(said.value, sum(one.says is not None for one in random), error, confidence)
        return CorrectedRate(rate, "sensitivity and specificity")
    return None


def in_short(found: JudgeCalibration | None) -> list[str]:
    """The calibration in a sentence, if the judge gave probabilities."""
    if found is None:
        return []
    off = f"expected calibration error {found.error:.2f}, where chance alone brings {found.by_chance:.2f}"
    holds = "nothing speaks against them" if found.p > _LEVEL else "they are not as stated"
    return [f"mean {percent(found.says, 1)} where people say {percent(found.wrong, 1)}; {off}: {holds}"]


def is_even(both: Sequence[AskedPair]) -> bool:
    """Whether people drew all these pairs at random, with nearly equal weights."""
    weights = [one.people.weight for one in both if one.people and one.people.weight]
    return len(weights) == len(both) > 0 and max(weights) <= _EVEN * min(weights)


def surely_wrong(asked: Sequence[AskedPair], ends: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
    """How surely the judge calls each wrong, from 0 at the first of `ends` to 1 at the second.

    A missing answer counts as the middle, so that the samples stay as drawn.
    """
    low, high = ends
    said = np.array([one.answer.surely_wrong if one.answer else (low + high) / 2 for one in asked])
    return (said - low) / (high - low)


def ends_of(asked: Sequence[AskedPair]) -> tuple[float, float]:
    """The judge's least and greatest certainty, to stretch the certainty of a judge who is never sure."""
    said = [one.answer.surely_wrong for one in asked if one.answer]
    low, high = min(said, default=0.0), max(said, default=1.0)
    return (low, high) if low < high else (0.0, 1.0)
