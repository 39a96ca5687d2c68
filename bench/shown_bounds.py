"""How often each bound holds that an audit's page or terminal states without a condition, where the truth is known.

    python -m bench.shown_bounds --data ../shared/data --home .scored        # writes benchmarks/shown_bounds.json

Every set is scored once.  Then so many samples are drawn as `--judge` draws them, their true labels are looked up, and
the audit states what it states to its user.  rate: of wrong pairs, 95 %, while judging and by `--judgements`.  order:
AUROC, 95 %.  gain: by what judgements lower the log loss at least, 90 %.  kept: the whole curve of what may be kept,
90 %.  planned: judging as many pairs as `--error 0.1` says gives the rate within that, 95 %.  by a judge: the rate that
a model's answers and 100 of people's give; agreement, kappa, sensitivity and specificity as `audit --judge-check`
states them, 95 %, of a judge that finds 75 % of the wrong pairs and passes 85 % of the right ones.
A cell has the lowest share over the numbers of judgements; it is marked where chance does not explain that it is below.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.scored_sets import SETS, ScoredPairs, scored
from bench.tables import read, record
from noisyir.audits.judging.session import random_order
from noisyir.audits.model_judges.judge_quality import check_judge
from noisyir.detection.calibration import logistic as judged
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import GAIN_CONFIDENCE, JudgedPairs, Lesson, auroc
from noisyir.detection.calibration.sample import draw_sample, rate_of_sample
from noisyir.detection.judgements import HumanJudgement, MachineAnswers
from noisyir.detection.rate import pairs_to_judge

LEVELS = {"rate while judging": 0.95, "rate by --judgements": 0.95, "order": 0.95, "gain": GAIN_CONFIDENCE, "kept": 0.9,
          "planned": 0.95, "rate by a judge": 0.95, "agreement": 0.95, "kappa": 0.95, "sensitivity": 0.95,
          "specificity": 0.95}  # fmt: skip
_ERROR = 0.1  # of which --error is asked
_BY_PEOPLE, _BY_JUDGE, _FINDS, _PASSES = 100, 400, 0.75, 0.85
_ROUNDING = 1e-9  # of a share that is exactly 0 or 1
_UNLIKELY = 1e-3  # chance of so few, at the level, at which a cell is called below it


class Held(NamedTuple):
    """Of one bound in one draw: whether it held."""

    bound: str
    judged: int
    held: bool


def main() -> None:
    given = _arguments()
    judged._cross_fitted = RememberedFits(judged._cross_fitted)
    try:
        known = read("shown_bounds")
        about, held = {row[0]: row[1:3] for row in known["table"][1:-1]}, known["held"]
    except FileNotFoundError:
        about, held = {}, {}
    for name in given.sets:
        pairs = scored(name, given.data, given.home)
        found = shares([one for seed in range(given.draws) for one in of_draw(pairs, given.judged, seed)])
        held = {key: counts for key, counts in held.items() if key.split(" ")[0] != name}
        held |= {f"{name} {bound} {count}": counts for (bound, count), counts in found.items()}
        about[name] = [f"{len(pairs.ids):,}", f"{pairs.is_wrong.mean():.0%}"]
        print(name, *(cell(found, bound) for bound in LEVELS), sep=" | ", flush=True)
    rows = [["set", "pairs", "wrong", *(f"{name} ({level:.0%})" for name, level in LEVELS.items())]]
    for name in (one for one in SETS if one in about):
        of_set = {_bound(key): counts for key, counts in held.items() if key.split(" ")[0] == name}
        rows.append([name, *about[name], *(cell(of_set, bound) for bound in LEVELS)])
    rows.append(["all", "", "", *(cell(_together(held), bound) for bound in LEVELS)])
    claim = "Bounds that an audit shows without a condition hold at their level."
    record("shown_bounds", rows, left=1, claim=claim, seeds=given.draws, judged=given.judged, held=held)


def _bound(key: str) -> tuple[str, int]:
    """Bound and number of judgements of a key of the record."""
    bound, _, count = key.partition(" ")[2].rpartition(" ")
    return bound, int(count)


def _together(held: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Over all sets.  What is planned, for other numbers of pairs in each, is one."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for key, (times, of) in held.items():
        bound, count = _bound(key)
        name = bound, 0 if bound == "planned" else count
        before = found.get(name, (0, 0))
        found[name] = before[0] + times, before[1] + of
    return found


class RememberedFits:
    """The fits of the last answers, which are looked at again to know the true gain."""

    def __init__(self, fit: Callable[..., np.ndarray]) -> None:
        self._fit, self._known = fit, dict[tuple[int, float], np.ndarray]()
        self._answers: JudgedPairs | None = None

    def __call__(
        self, columns: np.ndarray, fold: np.ndarray, answers: JudgedPairs, variance: float = 1.0
    ) -> np.ndarray:
        """As `noisyir.detection.calibration.logistic._cross_fitted`."""
        if answers is not self._answers:
            self._answers, self._known = answers, {}
        name = columns.shape[1], variance
        if name not in self._known:
            self._known[name] = self._fit(columns, fold, answers, variance)
        return self._known[name]


def of_draw(pairs: ScoredPairs, counts: Sequence[int], seed: int) -> Iterator[Held]:
    """Whether each bound holds that is stated after one session, looked at after so many judgements."""
    order = random_order(pairs.scores, np.random.default_rng(seed))
    for count in counts:
        rows = order.rows[:count]
        yield from _by_judgements(pairs, JudgedPairs(rows, pairs.is_wrong[rows], order.weights[:count]))
    yield _planned(pairs, seed)
    yield from _by_a_judge(pairs, np.random.default_rng(seed))


def _by_judgements(pairs: ScoredPairs, answers: JudgedPairs) -> Iterator[Held]:
    told, wrong = judge_all(pairs.scores, pairs.features, pairs.query, answers), pairs.is_wrong
    count = len(answers.rows)
    truth, bounds, lesson = float(wrong.mean()), told.guarantee, told.lesson
    assert told.rate is not None and bounds is not None
    yield Held("rate while judging", count, _within(truth, told.rate.low, told.rate.high))
    _, low, high = rate_of_sample(pairs.scores, answers)
    yield Held("rate by --judgements", count, _within(truth, low, high))
    of_kept = np.cumsum(wrong[np.argsort(pairs.scores, kind="stable")])[bounds.kept - 1] / bounds.kept
    yield Held("kept", count, bool((of_kept <= bounds.bound + _ROUNDING).all()))
    if lesson.order is not None:
        of_all = auroc(lesson.suspicion, wrong)
        assert of_all is not None
        yield Held("order", count, _within(of_all.value, lesson.order.low, lesson.order.high))
    if lesson.gain is not None:
        yield Held("gain", count, lesson.gain.at_least <= true_gain(pairs, answers, lesson))


def _within(truth: float, low: float, high: float) -> bool:
    return low - _ROUNDING <= truth <= high + _ROUNDING


def true_gain(pairs: ScoredPairs, answers: JudgedPairs, lesson: Lesson) -> float:
    """By what the features lower the log loss of the pairs that nobody judged, by the model with the stated gain."""
    wrong, fold = pairs.is_wrong, lesson.fold
    order = np.column_stack([np.ones(len(wrong)), judged._normal_scores(pairs.scores)])
    unseen = np.flatnonzero(~np.isin(pairs.query, pairs.query[answers.rows]))
    others = JudgedPairs(unseen, wrong[unseen], np.ones(len(unseen)))
    plain = judged._own(judged._cross_fitted(order, fold, answers), fold)
    for variance in judged._VARIANCES:
        columns = np.column_stack([order, pairs.features])
        taught = judged._own(judged._cross_fitted(columns, fold, answers, variance), fold)
        if judged._share_gained(judged._losses(plain, answers), judged._losses(taught, answers)) == lesson.gain:
            return 1 - float(judged._losses(taught, others).mean() / judged._losses(plain, others).mean())
    raise AssertionError("no model has the stated gain")


def _planned(pairs: ScoredPairs, seed: int) -> Held:
    """As many pairs as are advised where nobody has judged."""
    count = pairs_to_judge(0.5, _ERROR, 0.95, len(pairs.ids))
    drawn = draw_sample(pairs.scores, count, np.random.default_rng(seed))
    judged = JudgedPairs(drawn.rows, pairs.is_wrong[drawn.rows], drawn.weights)
    rate, *_ = rate_of_sample(pairs.scores, judged)
    return Held("planned", count, abs(rate - float(pairs.is_wrong.mean())) <= _ERROR)


def _by_a_judge(pairs: ScoredPairs, rng: np.random.Generator) -> Iterator[Held]:
    """The statements on a judge that errs, by the pairs that people judged, too."""
    wrong, count = pairs.is_wrong, len(pairs.ids)
    says = rng.random(count) < np.where(wrong, _FINDS, 1 - _PASSES)
    names = [(str(query), str(document)) for query, document in pairs.ids]
    drawn = draw_sample(pairs.scores, _BY_PEOPLE, rng)
    people = {
        names[row]: HumanJudgement("wrong" if wrong[row] else "clean", float(weight))
        for row, weight in zip(drawn.rows.tolist(), drawn.weights, strict=True)
    }
    asked = rng.permutation(count)[:_BY_JUDGE].tolist()
    said = {names[row]: "wrong" if says[row] else "clean" for row in [*asked, *drawn.rows.tolist()]}
    weights = {names[row]: count / len(asked) for row in asked}
    found = check_judge(MachineAnswers("model:simulated", said, {}, weights), people, 0.1)  # type: ignore[arg-type]
    agreed = float((says == wrong).mean())
    stated: dict[str, tuple[float, tuple[float, float] | None]] = {
        "rate by a judge": (float(wrong.mean()), found.report.corrected and found.report.corrected.rate[1:3]),
        "agreement": (agreed, found.agreement[1:]),
        "sensitivity": (float(says[wrong].mean()) if wrong.any() else np.nan, found.sensitivity),
        "specificity": (float((~says[~wrong]).mean()), found.specificity),
        "kappa": (_kappa(says, wrong), found.kappa and found.kappa[1:3]),
    }
    for bound, (truth, ends) in stated.items():
        if ends is not None and np.isfinite([truth, *ends]).all():
            yield Held(bound, _BY_PEOPLE, _within(truth, *ends))


def _kappa(one: np.ndarray, other: np.ndarray) -> float:
    by_chance = one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean())
    return float(((one == other).mean() - by_chance) / (1 - by_chance)) if by_chance < 1 else np.nan


def shares(held: Sequence[Held]) -> dict[tuple[str, int], tuple[int, int]]:
    """By bound and number of judgements: how often it held, of how many draws in which it was stated."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for bound, count, ok in held:
        times, of = found.get((bound, count), (0, 0))
        found[bound, count] = int(times + ok), of + 1
    return found


def cell(counts: Mapping[tuple[str, int], Sequence[int]], bound: str) -> str:
    """The lowest share over the numbers of judgements; a cross where it is below the level by more than chance."""
    known = [(times / of, times, of) for (name, _), (times, of) in counts.items() if name == bound]
    if not known:
        return "-"
    share, times, of = min(known)
    return f"{share:.1%}{' ✗' if is_below(times, of, LEVELS[bound]) else ''}"


def is_below(times: int, of: int, level: float) -> bool:
    """Whether a bound that holds at its level would hardly ever hold so rarely."""
    from scipy.stats import binom

    return bool(binom.cdf(times, of, level) < _UNLIKELY)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".scored"), help="where bench.scored_sets keeps the scores")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--judged", type=int, nargs="+", default=[30, 100, 200])
    parser.add_argument("--draws", type=int, default=200, help="samples of each set")
    return parser.parse_args()


if __name__ == "__main__":
    main()
