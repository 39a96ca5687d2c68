"""A model's judgements against people's, and the precision of a rate with its help."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from noisyir.audits.model_judges.judge_report import (
    AskedPair,
    JudgeReport,
    ends_of,
    in_short,
    is_even,
    judge_report,
    measured_on,
    surely_wrong,
)
from noisyir.audits.model_judges.judges import Answer, JudgeUsage
from noisyir.base.errors import ConfigError, DataError
from noisyir.base.pages.cells import percent
from noisyir.data.row_files import RowFile
from noisyir.detection.calibration.judge_error import (
    FEWEST_BY_PEOPLE,
    JudgeError,
    Reach,
    calibration_split,
    reach_of_error,
    reach_of_sample,
)
from noisyir.detection.calibration.logistic import auroc
from noisyir.detection.judgements import Judgements, MachineAnswers, cohens_kappa, given_judgements, machine_answers
from noisyir.detection.rate import Interval, wilson

_WITHIN = 0.05  # default half-width of a rate's interval
_MOST = 1_000_000  # labels


@dataclass(frozen=True)
class JudgeCheck:
    """A judge's quality on the pairs that people judged, too.

    Attributes:
        answers: Number of pairs that the judge answered.
        labels: Number of pairs that people judged wrong or clean.
        both: Number of pairs with an answer and a label.
        decided: Number of these that the judge did not leave open.
        random: Whether the labels are an even random sample.
        kappa: None if the judge always said the same.
        order: AUROC of the judge's probabilities.
        within: The requested half-width of the rate's interval.
        needed: Labels that this takes; None if unknown or impossible.
        split: The needed labels on wrong and on clean pairs, if they need not be a random sample.
    """

    report: JudgeReport
    answers: int
    labels: int
    both: int
    decided: int
    random: bool
    agreement: tuple[float, float, float]
    kappa: Interval | None
    sensitivity: tuple[float, float]
    specificity: tuple[float, float]
    order: Interval | None
    reach: Reach | None
    within: float
    needed: int | None
    split: tuple[int, int] | None

    @property
    def is_good_enough(self) -> bool:
        """Whether the present labels reach the requested half-width."""
        return self.reach is not None and self.reach.limit <= self.within

    def for_machines(self) -> dict[str, Any]:
        """The report as one object, unknown values as null."""
        report = self.report
        found = {
            "judge": report.judge,
            **{name: value for name, value in asdict(self).items() if name != "report"},
            "kappa": self.kappa and self.kappa._asdict(),
            "order": self.order and self.order._asdict(),
            "agreement": Interval(*self.agreement)._asdict(),
            "sensitivity": Interval(report.error.sensitivity, *self.sensitivity)._asdict() | {"of": report.error.wrong},
            "specificity": Interval(report.error.specificity, *self.specificity)._asdict() | {"of": report.error.clean},
            "calibration": report.calibration
            and report.calibration._asdict() | {"groups": [group._asdict() for group in report.calibration.groups]},
            "rate": report.corrected and {**report.corrected.rate._asdict(), "by": report.corrected.by},
            "reach": self.reach and self.reach._asdict(),
            "good_enough": self.is_good_enough,
        }
        return {name: _known(value) for name, value in found.items()}

    def summary(self) -> list[tuple[str, str]]:
        """The report for a terminal: a heading and a text for each line."""
        error, kappa = self.report.error, self.kappa
        drawn = "drawn at random" if self.random else "not a random sample: it may err otherwise on the rest"
        left = f"; it left {self.both - self.decided:,} of them open" if self.both > self.decided else ""
        sensitivity = _share(error.sensitivity, *self.sensitivity)
        specificity = _share(error.specificity, *self.specificity)
        return [
            ("judge", f"{self.report.judge}; intervals at {percent(self.report.confidence)}"),
            (
                "pairs",
                f"{self.both:,} of its {self.answers:,} are among the {self.labels:,} of people's ({drawn}){left}",
            ),
            ("agreement", f"{_share(*self.agreement)}; {_beyond_chance(kappa)}"),
            ("finds", f"{sensitivity} of the {error.wrong:,} that people call wrong (sensitivity)"),
            ("passes", f"{specificity} of the {error.clean:,} that they call clean (specificity)"),
            *(("order", f"AUROC {one.value:.2f} [{one.low:.2f}, {one.high:.2f}]") for one in [self.order] if one),
            *self._chances(),
            *self._rate(),
            ("verdict", self._verdict()),
        ]

    def _chances(self) -> list[tuple[str, str]]:
        found = self.report.calibration
        if found is None:
            return [("chances", "none given, or on too few pairs: it says words alone")]
        groups = [
            f"  of {one.pairs:,} it says {percent(one.says)} wrong, people {_share(one.wrong, one.low, one.high)}"
            for one in found.groups
        ]
        return [("chances", in_short(found)[0]), *(("", line) for line in groups)]

    def _rate(self) -> list[tuple[str, str]]:
        found = self.report.corrected
        return [("rate", f"{_share(*found.rate)} wrong, by {found.by}")] if found else []

    def _verdict(self) -> str:
        if self.reach is None:
            return "unknown: too few labels, or the judge does no better than a coin"
        alone = "" if math.isnan(self.reach.alone) else f" (by these labels without it: {100 * self.reach.alone:.1f})"
        said = f"good enough for a rate within {100 * self.reach.limit:.1f} points, if it answers on all pairs{alone}"
        if self.is_good_enough:
            return said
        if self.needed is None:
            return f"{said}; within {100 * self.within:g} it cannot be had"
        kinds = f": {self.split[0]:,} wrong ones and {self.split[1]:,} clean ones" if self.split else ""
        return f"{said}; within {100 * self.within:g} takes about {self.needed:,} labels{kinds}"


def check_files(answers: str, judgements: str, within: float | None) -> JudgeCheck:
    """Check a judge by two files, in either order.

    Raises:
        ConfigError: If `within` is no half-width.
        DataError: If a file holds neither answers nor judgements, answers are by several judges, or no pair is in both.
    """
    if within is not None and not 0 < within < 0.5:
        raise ConfigError("audits.error_out_of_range", within=within)
    files = RowFile.open(answers, "ANSWERS"), RowFile.open(judgements, "JUDGEMENTS")
    found, people = machine_answers(files[0]), judgements
    if found is None:
        found, people = machine_answers(files[1]), answers
    if found is None:
        raise DataError("audits.no_model_answers", file=answers)
    return check_judge(found, given_judgements([people]), within or _WITHIN)


def check_judge(answers: MachineAnswers, people: Judgements, within: float, confidence: float = 0.95) -> JudgeCheck:
    """Check a judge on the pairs that people judged; within: the half-width that the rate's interval may have.

    Raises:
        DataError: If no pair has both verdicts.
    """
    labels = {pair: one for pair, one in people.items() if one.verdict != "unclear"}
    asked = [_asked(pair, answers, labels) for pair in answers.verdicts]
    both, at_random = measured_on(asked)
    if not both:
        raise DataError(
            "audits.answers_on_other_pairs", n_answers=len(answers.verdicts), judge=answers.judge, n_labels=len(labels)
        )
    pairs = round(sum(answers.weights.values())) or len(asked)
    report = judge_report(answers.judge, pairs, asked, JudgeUsage(), confidence)
    decided = [one for one in both if one.says is not None]
    says, truth = np.array([(one.says, one.is_wrong) for one in decided], bool).reshape(-1, 2).T
    error, agreed = report.error, float(np.mean(says == truth)) if decided else math.nan
    even = at_random and is_even(both)
    reach, needed, split = _reach(both, report, even, within, confidence)
    sure = [one for one in both if one.answer and one.answer.p_wrong is not None]
    return JudgeCheck(
        report=report,
        answers=len(asked),
        labels=len(labels),
        both=len(both),
        decided=len(decided),
        random=even,
        agreement=(agreed, *_interval(agreed, len(decided), confidence)),
        kappa=cohens_kappa(says, truth, confidence) if 0 < says.sum() < len(says) else None,
        sensitivity=_interval(error.sensitivity, error.wrong, confidence),
        specificity=_interval(error.specificity, error.clean, confidence),
        order=auroc(surely_wrong(sure), np.array([one.is_wrong for one in sure])) if sure else None,
        reach=reach,
        within=within,
        needed=needed,
        split=split,
    )


def _asked(pair: tuple[str, str], answers: MachineAnswers, labels: Judgements) -> AskedPair:
    answer = Answer(answers.verdicts[pair], answers.p_wrong.get(pair))
    return AskedPair("random" if pair in answers.weights else "", answer, labels.get(pair))


def _reach(
    both: Sequence[AskedPair], report: JudgeReport, even: bool, within: float, confidence: float
) -> tuple[Reach | None, int | None, tuple[int, int] | None]:
    """The rate's precision, the labels needed for the requested one, and their split."""
    truth = np.array([one.is_wrong for one in both])
    if even and len(both) >= FEWEST_BY_PEOPLE:
        said = surely_wrong(both, ends_of(both))
        reach = reach_of_sample(truth, said, confidence)
        return reach, _fewest(lambda labels: reach_of_sample(truth, said, confidence, labels).limit, within, 10), None
    error = report.error
    if not error.can_be_corrected_for:
        return None, None, None
    said_wrong = report.said.value if report.said else float(surely_wrong(both).mean())
    least = min(error.wrong, error.clean)

    def of(labels: int) -> JudgeError:
        wrong, clean = calibration_split(labels, said_wrong, error, min(least, labels // 2))
        return error._replace(wrong=wrong, clean=clean)

    needed = _fewest(lambda labels: reach_of_error(said_wrong, of(labels), confidence).limit, within, 2 * least)
    split = None if needed is None else calibration_split(needed, said_wrong, error, min(least, needed // 2))
    return reach_of_error(said_wrong, error, confidence), needed, split


def _fewest(half: Callable[[int], float], within: float, least: int) -> int | None:
    """The fewest labels, to within a tenth, that reach the half-width; None if none do."""
    labels = least
    while half(labels) > within:
        labels = math.ceil(1.1 * labels)
        if labels > _MOST:
            return None
    return labels


def _interval(share: float, size: int, confidence: float) -> tuple[float, float]:
    return wilson(share, size, confidence) if size else (math.nan, math.nan)


def _share(share: float, low: float, high: float) -> str:
    return "nothing is known" if math.isnan(share) else f"{percent(share)} [{percent(low)}, {percent(high)}]"


def _beyond_chance(kappa: Interval | None) -> str:
    if kappa is None:
        return "no kappa, for the judge only ever said one thing"
    return f"kappa {kappa.value:.2f} [{kappa.low:.2f}, {kappa.high:.2f}]"


def _known(value: Any) -> Any:
    """The value for JSON: null in place of NaN, at any depth."""
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
