"""What judgements buy on labelled pairs: the order, the rate and the guarantee by number of judgements.

    python bench/judging.py ../shared/data/staqc_sql/sql_annotated.jsonl \\
        --query title --document code --query-id qid --doc-id id --label label --wrong 0

Scores and features are from the detector `ensemble`, through the pipeline, without labels.  Sessions look up
the labels of pairs in the order in which `--judge` asks for them.  AUROC is over the pairs whose queries have no judged
pair, ECE is the calibration error of their chances in tenths; error, coverage and broken are of the rate, of its
nominal 95 % interval and of the 90 % guarantee anywhere on its curve; kept is the share of pairs of which the guarantee
says that at most `--at-most` are wrong.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyir import experiments
from noisyir.app.judging.session import random_order
from noisyir.app.runs import Execution, run_experiment
from noisyir.detection.judged import JudgedPairs, auroc
from noisyir.detection.judging import judge_all
from noisyir.engine.plan import Choice
from noisyir.engine.store import Store
from noisyir.pipelines.retrievers import audit_pairs
from noisyir.tracking import open_tracker


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
    calibration: float


def main() -> None:
    given = _arguments()
    pairs = _pairs(given)
    print(f"{len(pairs.scores):,} pairs, {pairs.is_wrong.mean():.1%} wrong, {given.seeds} sessions each\n")
    print("| judged | AUROC before | AUROC | improves | rate's error | covered | width | broken | kept | ECE |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for judged in given.judged:
        outcomes = [_outcome(pairs, judged, seed, given.at_most) for seed in range(given.seeds)]
        means = [float(np.mean(column)) for column in zip(*outcomes, strict=True)]
        print(f"| {judged} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)


def _outcome(pairs: Pairs, judged: int, seed: int, at_most: float) -> Outcome:
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
        calibration=calibration_error(told.lesson.p_wrong[unseen], wrong[unseen]),
    )


def calibration_error(chance: np.ndarray, is_wrong: np.ndarray) -> float:
    """Mean distance of chance and share of wrong pairs over ten parts of the chances, each as its pairs weigh."""
    part = np.minimum((10 * chance).astype(int), 9)
    return float(sum(abs((chance - is_wrong)[part == number].sum()) for number in range(10)) / len(chance))


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
    parser.add_argument("--at-most", type=float, default=0.1, help="share of wrong pairs among the kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
