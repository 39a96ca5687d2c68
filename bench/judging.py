"""What judgements buy on labelled pairs: the order, the rate, the chances and the guarantee by number of judgements.

    python -m bench.judging --data ../shared/data --home .scored   # writes benchmarks/judging.json and audit_order.json

Scores and features are from the detector `ensemble`, without labels (bench.scored_sets).  Sessions look up the labels
of pairs in the order in which `--judge` asks for them.  AUROC is over the pairs whose queries have no judged pair, and
so is ECE, the calibration error of the chances in tenths, of which a part comes by chance alone: what chances that are
right would have.  Error, coverage and width are of the rate and its nominal 95 % interval; broken is the share of
sessions in which the 90 % guarantee is broken anywhere on its curve, and kept the share of pairs of which it says that
at most `--at-most` are wrong.  Of CoNaLa, which has no wrong pairs, 30 % have a neighbour put in.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.scored_sets import SETS, ScoredPairs, scored
from bench.tables import record
from noisyir.audits.judging.session import random_order
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import JudgedPairs, auroc

_IN_WORDS = {
    "squad:uniform": "random paragraphs put in by us (SQuAD)",
    "squad:half_answer": "half of the right paragraph put in by us (SQuAD)",
    "staqc": "answers that people called wrong (StaQC, SQL)",
    "nl2bash": "commands that people called wrong (nl2bash)",
}
_HEADINGS = ["set", "judged", "AUROC without", "AUROC", "improves", "error of the rate", "covered", "width", "broken",
             "kept", "ECE", "of that by chance"]  # fmt: skip


class Outcome(NamedTuple):
    """Of one session after so many judgements."""

    free: float
    order: float
    improves: bool
    error: float
    covered: bool
    width: float
    broken: bool
    kept: float
    calibration: float
    by_chance: float


def main() -> None:
    given = _arguments()
    rows, by_seed = [_HEADINGS], dict[str, list[Outcome]]()
    most = max(given.judged)
    in_words = [["data", "wrong", "without checking", f"after {most} checked pairs"]]
    for name in given.sets:
        pairs = scored(name, given.data, given.home)
        for judged in given.judged:
            by_seed[f"{name} {judged}"] = [_outcome(pairs, judged, seed, given.at_most) for seed in range(given.seeds)]
            rows.append([name, str(judged), *_cells(by_seed[f"{name} {judged}"])])
            print(" | ".join(rows[-1]), flush=True)
        if name in _IN_WORDS:
            shares = pairs.is_wrong.mean(), *np.mean([found[:2] for found in by_seed[f"{name} {most}"]], axis=0)
            in_words.append([_IN_WORDS[name], *(f"{100 * share:.0f} %" for share in shares)])
    claim = "Judgements improve the order of sets that people judged, and the rate's interval covers what it says."
    record("judging", rows, left=1, claim=claim, seeds=given.seeds, by_seed=by_seed)
    claim = "How often a wrong pair is listed above a right one, over pairs of queries without a checked pair."
    record("audit_order", in_words, left=1, claim=claim, seeds=given.seeds)


def _cells(outcomes: list[Outcome]) -> Iterator[str]:
    for name, column in zip(Outcome._fields, zip(*outcomes, strict=True), strict=True):
        yield (
            f"{np.mean(column):.0%}" if name in ("improves", "covered", "broken", "kept") else f"{np.mean(column):.3f}"
        )


def _outcome(pairs: ScoredPairs, judged: int, seed: int, at_most: float) -> Outcome:
    """Of the session with this seed after so many judgements."""
    rows, weights = (column[:judged] for column in random_order(pairs.scores, np.random.default_rng(seed)))
    told = judge_all(pairs.scores, pairs.features, pairs.query, JudgedPairs(rows, pairs.is_wrong[rows], weights))
    assert told.rate is not None and told.guarantee is not None
    unseen = ~np.isin(pairs.query, pairs.query[rows])
    wrong, truth = pairs.is_wrong, float(pairs.is_wrong.mean())
    before, after = (auroc(order[unseen], wrong[unseen]) for order in (pairs.scores, told.lesson.suspicion))
    assert before is not None and after is not None
    bounds, rate = told.guarantee, told.rate
    of_kept = np.cumsum(wrong[np.argsort(told.lesson.suspicion, kind="stable")])[bounds.kept - 1] / bounds.kept
    most, chance, rng = bounds.most(at_most), told.lesson.p_wrong[unseen], np.random.default_rng(seed)
    return Outcome(
        free=before.value,
        order=after.value,
        improves=told.lesson.improves,
        error=abs(rate.value - truth),
        covered=rate.low <= truth <= rate.high,
        width=rate.high - rate.low,
        broken=bool((of_kept > bounds.bound).any()),
        kept=most[0] / len(wrong) if most else 0.0,
        calibration=calibration_error(chance, wrong[unseen]),
        by_chance=float(np.mean([calibration_error(chance, rng.random(len(chance)) < chance) for _ in range(20)])),
    )


def calibration_error(chance: np.ndarray, is_wrong: np.ndarray, bins: int = 10) -> float:
    """The expected calibration error: |mean chance - share of wrong pairs| of each tenth of the scale, by its size.

    Source: Naeini, Cooper and Hauskrecht, AAAI 2015.
    """
    place = np.minimum((np.asarray(chance) * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(place, chance, bins) - np.bincount(place, is_wrong, bins)
    return float(np.abs(gaps).sum() / max(len(place), 1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".scored"), help="where bench.scored_sets keeps the scores")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*_IN_WORDS, "conala:neighbour"])
    parser.add_argument("--judged", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--seeds", type=int, default=20, help="sessions of each set")
    parser.add_argument("--at-most", type=float, default=0.1, help="share of wrong pairs among the kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
