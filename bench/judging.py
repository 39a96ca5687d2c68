"""What judgements buy on labelled pairs: the order, the rate and the guarantee by number of judgements.

    python bench/judging.py ../shared/data/staqc_sql/sql_annotated.jsonl \\
        --query title --document code --query-id qid --doc-id id --label label --wrong 0

Scores and features are those of the audit's detector `ensemble`, through the pipeline, without labels.  Sessions then
look up the labels that they ask for: `random`, all drawn at random, and `teaching`, as a session of `--judge` does it,
50 at random and then by turns one at random and one that teaches.  AUROC is over the pairs whose queries nobody judged;
error, coverage and broken are of the rate, of its nominal 95 % interval and of the 90 % guarantee anywhere on its
curve; kept is the share of pairs of which the guarantee says that at most `--at-most` are wrong.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyir import experiments
from noisyir.app.runs import Execution, run_experiment
from noisyir.detection.judged import JudgedPairs, auroc
from noisyir.detection.judging import LearntOrder, judge_all
from noisyir.engine.plan import Choice
from noisyir.engine.store import Store
from noisyir.pipelines.retrievers import audit_pairs
from noisyir.tracking import open_tracker

FIRST, BATCH = 50, 25  # as noisyir/app/judging/session.py has them


class Pairs(NamedTuple):
    """Labelled pairs with what the detector says; query is a number."""

    scores: np.ndarray
    features: np.ndarray
    query: np.ndarray
    is_wrong: np.ndarray


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


def main() -> None:
    given = _arguments()
    pairs = _pairs(given)
    print(f"{len(pairs.scores):,} pairs, {pairs.is_wrong.mean():.1%} wrong, {given.seeds} sessions each\n")
    print("| drawn | judged | AUROC before | AUROC | improves | rate's error | covered | width | broken | kept |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for drawn in given.drawn:
        found: dict[int, list[Outcome]] = {number: [] for number in given.judged}
        for seed in range(given.seeds):
            for judged, outcome in _session(pairs, drawn == "teaching", given.judged, seed, given.at_most):
                found[judged].append(outcome)
        for judged, outcomes in found.items():
            means = [float(np.mean(column)) for column in zip(*outcomes, strict=True)]
            print(f"| {drawn} | {judged} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)


def _session(
    pairs: Pairs, teaching: bool, numbers: list[int], seed: int, at_most: float
) -> Iterator[tuple[int, Outcome]]:
    order = np.random.default_rng(seed).permutation(len(pairs.scores)).tolist()
    drawn: list[int] = []
    chosen: list[int] = []
    for number in range(BATCH, max(numbers) + 1, BATCH):
        told = _told(pairs, drawn, chosen) if drawn and teaching else None
        teach = [] if told is None else told.teaching.tolist()
        while (judged := len(set(drawn) | set(chosen))) < number:
            if teaching and judged >= FIRST and judged % 2 and teach:
                chosen.append(teach.pop(0))
            else:  # one that was judged because it teaches counts as drawn from now on
                drawn.append(order[len(drawn)])
        if number in numbers:
            yield number, _outcome(pairs, _told(pairs, drawn, chosen), [*drawn, *chosen], at_most)


def _told(pairs: Pairs, drawn: list[int], chosen: list[int]) -> LearntOrder:
    only = [row for row in chosen if row not in set(drawn)]
    rows = np.array([*drawn, *only])
    weights = np.r_[np.ones(len(drawn)), np.full(len(only), np.nan)]
    answers = JudgedPairs(rows, pairs.is_wrong[rows], weights)
    return judge_all(pairs.scores, pairs.features, pairs.query, answers, wanted=2 * BATCH)


def _outcome(pairs: Pairs, told: LearntOrder, judged: list[int], at_most: float) -> Outcome:
    assert told.rate is not None and told.guarantee is not None
    unseen = ~np.isin(pairs.query, pairs.query[judged])
    wrong, truth = pairs.is_wrong, float(pairs.is_wrong.mean())
    before, after = (auroc(order[unseen], wrong[unseen]) for order in (pairs.scores, told.lesson.suspicion))
    assert before is not None and after is not None
    bounds, rate = told.guarantee, told.rate
    of_kept = np.cumsum(wrong[np.argsort(told.lesson.suspicion, kind="stable")])[bounds.kept - 1] / bounds.kept
    most = bounds.most(at_most)
    return Outcome(
        free=before.value,
        order=after.value,
        improves=told.lesson.improves,
        error=abs(rate.value - truth),
        covered=rate.low <= truth <= rate.high,
        width=rate.high - rate.low,
        broken=bool((of_kept > bounds.bound).any()),
        kept=most[0] / len(wrong) if most else 0.0,
    )


def _pairs(given: argparse.Namespace) -> Pairs:
    """The pairs by the detector, and their labels, which no stage reads."""
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    columns = {"query": given.query, "document": given.document, "query_id": given.query_id, "doc_id": given.doc_id}
    settings = {
        "name": "judging",
        "data": {"kind": "pairs", "path": str(given.file), "columns": columns | {"split": None}},
        "detectors": {"ensemble": {"kind": "ensemble"}},
    }
    exp, store = experiments.from_settings(settings, []), Store(home / "store", home=home)
    tracker = open_tracker(experiment=exp, home=home, enabled=False)
    outcome = run_experiment(exp, Choice(to="detect"), Execution(store=store, tracker=tracker), pipeline=audit_pairs)
    meta = next(result.meta for result in outcome.results.values() if result.meta.stage == "score_pairs")
    scores, features = (
        store.builds.table(meta.ref(name)).sort_by([("query_id", "ascending"), ("doc_id", "ascending")])
        for name in ("pair_scores", "pair_features")
    )
    assert scores["doc_id"].equals(features["doc_id"])
    wrong = {
        (str(row[given.query_id]), str(row[given.doc_id])): str(row[given.label]) == given.wrong
        for row in map(json.loads, given.file.read_text(encoding="utf-8").splitlines())
    }
    ids = list(zip(scores["query_id"].to_pylist(), scores["doc_id"].to_pylist(), strict=True))
    return Pairs(
        scores["score"].to_numpy().astype(np.float64),
        np.stack(features["features"].to_numpy()).astype(np.float64),
        np.unique(scores["query_id"].to_numpy(), return_inverse=True)[1],
        np.array([wrong[pair] for pair in ids]),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="labelled pairs, one JSON object a line")
    for name, default in (("query", "query"), ("document", "document"), ("label", "label"), ("wrong", "0")):
        parser.add_argument(
            f"--{name}", default=default, help="a column" if name != "wrong" else "label of wrong pairs"
        )
    parser.add_argument("--query-id", default="query_id")
    parser.add_argument("--doc-id", default="doc_id")
    parser.add_argument("--judged", type=int, nargs="+", default=[25, 50, 100, 200, 400])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--drawn", nargs="+", choices=["random", "teaching"], default=["random", "teaching"])
    parser.add_argument("--at-most", type=float, default=0.1, help="share of wrong pairs among the kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
