"""Whether the corrected ruler holds: sessions of judging on sets with known truth, beside plain sampling.

    python -m bench.corrected_ruler --data ../shared/data --home .ruler       # writes benchmarks/corrected_ruler.json

A session draws pooled documents, looks their truth up, and corrects nDCG@10 of five systems.  Plain sampling judges
whole pools of random queries, as many as cost the same, and takes t intervals by query.  Both intervals are for queries
like these.  Covered is of the value of the set with its whole pool judged; resampled is of the same value where each
session's queries are drawn from the set with replacement, as a user's queries are.  Width is the interval's beside
plain sampling's.  Order is the share of differences that are called, at 95 %, and have the sign of the truth.  A
useless judge gives random chances.  No constant of noisyir/evaluation/corrected.py was chosen on these sets.
"""

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.ruler_sets import SETS, RulerSet, ruler_set
from bench.tables import record
from noisyir.evaluation.corrected import Pools, calibrated, corrected, draw, sizes
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.evaluation.significance import mean_by_t

Array = np.ndarray
JUDGES = ("real", "useless")
HEADINGS = ["set", "judge", "measure", "judged", "queries met", "covered", "resampled", "plain covered",
            "width of values", "width of differences", "called different", "in the right order"]  # fmt: skip
NDCG = PooledMeasure("nDCG", 10)
_OTHERS = ("RR@10", "R@10", "P@10")
_OTHERS_AT, _RESAMPLED = 200, 100  # judgements for other measures; sessions with queries drawn again


class Session(NamedTuple):
    """Of the systems' values, and then of their differences: whether each is covered, and half the width."""

    covered: Array
    half: Array
    signs: Array
    queries: int


class Bench:
    """One set with one judge, and one measure."""

    def __init__(self, given: RulerSet, judge: str, measure: str) -> None:
        """Draw by nDCG@10, whatever is measured."""
        chance = given.chance
        if judge == "useless":
            chance = np.where(given.pooled, np.random.default_rng(1).random(chance.shape), 0.0)
        self.pools = Pools(given.pooled, chance, given.given, given.heads)
        kind, _, depth = measure.partition("@")
        self.right, self.measure = np.where(given.pooled, given.right, 0.0), PooledMeasure(kind, int(depth))
        self.size = sizes(self.pools, NDCG)
        self.true = self.measure.values(self.right, given.heads)
        systems = len(given.systems)
        pairs = [np.eye(systems)[b] - np.eye(systems)[a] for a, b in combinations(range(systems), 2)]
        self.systems, self.sums = systems, np.array([*np.eye(systems), *pairs])
        self.truth = self.sums @ self.true.mean(axis=0)

    def session(self, count: int, seed: int, *, resampled: bool) -> Session:
        rows = np.arange(len(self.size))
        if resampled:
            rows = np.random.default_rng(seed + 10_000).choice(rows, len(rows))
        pools = Pools(*(table[rows] for table in vars(self.pools).values()))
        drawing, right = draw(self.size[rows], seed), self.right[rows]
        judged = drawing.chances(drawing.priority < drawing.end_after(count))
        chance = calibrated(pools, judged, right)
        found = corrected(pools, self.measure, drawing, right, judged, chance)
        return self._told([found.interval(weights) for weights in self.sums], found.queries)

    def plain(self, count: int, seed: int) -> Session:
        queries = max(2, round(count / self.pools.pooled.sum(axis=1).mean()))
        rows = np.random.default_rng(seed).choice(len(self.true), min(queries, len(self.true)), replace=False)
        values = self.true[rows]
        return self._told([mean_by_t(values @ weights, len(rows) - 1) for weights in self.sums], len(rows))

    def _told(self, found: Sequence[tuple[float, float, float, float]], queries: int) -> Session:
        mean, low, high, _ = np.array(found).T
        covered = (low <= self.truth + 1e-12) & (self.truth <= high + 1e-12)
        called = np.sign(np.where((low > 0) | (high < 0), mean, 0.0))
        return Session(covered, (high - low) / 2, called[self.systems :], queries)


def row_of(bench: Bench, count: int, sessions: int) -> list[str]:
    own = [bench.session(count, seed, resampled=False) for seed in range(sessions)]
    other = [bench.session(count, seed, resampled=True) for seed in range(min(sessions, _RESAMPLED))]
    plain = [bench.plain(count, seed) for seed in range(sessions)]
    covered = [float(np.mean([one.covered for one in side])) for side in (own, other, plain)]
    half, beside = (np.mean([one.half for one in side], axis=0) for side in (own, plain))
    split = bench.systems
    widths = [f"{half[part].mean() / beside[part].mean():.2f}" for part in (slice(split), slice(split, None))]
    signs = np.array([one.signs for one in own])
    called = signs != 0
    right = (signs == np.sign(bench.truth[split:]))[called]
    return [f"{np.mean([one.queries for one in own]):.0f}", *(f"{share:.1%}" for share in covered), *widths,
            f"{called.mean():.0%}", f"{right.mean():.1%}" if called.any() else "none"]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all sets, judges and numbers, and record them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".ruler"), help="where pools and scores are kept")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--judged", type=int, nargs="+", default=[100, 200, 400])
    parser.add_argument("--sessions", type=int, default=500)
    given = parser.parse_args(arguments)
    rows = [HEADINGS]
    for name in given.sets:
        found = ruler_set(name, given.data, given.home)
        asked = [(judge, "nDCG@10", count) for judge in JUDGES for count in given.judged]
        asked += [("real", measure, _OTHERS_AT) for measure in _OTHERS]
        for judge, measure, count in asked:
            sessions = given.sessions if measure == "nDCG@10" else min(given.sessions, 2 * _RESAMPLED)
            cells = row_of(Bench(found, judge, measure), count, sessions)
            rows.append([name, judge, measure, str(count), *cells])
            print(" | ".join(rows[-1]), flush=True)
    claim = ("95 % intervals of corrected values of five systems hold the fully judged values; widths are beside plain "
             "sampling's with as many judgements.")  # fmt: skip
    record("corrected_ruler", rows, left=3, claim=claim, seeds=given.sessions)


if __name__ == "__main__":
    main()
