"""Detectors on real wrong pairs: StaQC's SQL questions with code that people judged to answer them or not.

    python bench/staqc.py ../shared/data/staqc_sql

3,637 pairs, 1,581 of them judged wrong.  The judgements are read here and by no stage; nothing is chosen by them.
Each detector runs as the audit runs it, on all pairs; AUROC and average precision are of its scores.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from noisyir import experiments
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.store import Store
from noisyir.eval.detection import detection_quality
from noisyir.pipelines.retrievers import audit_pairs
from noisyir.tracking import open_tracker

COLUMNS = {"query": "title", "document": "code", "query_id": "qid", "doc_id": "id", "split": None}
DETECTORS: dict[str, dict[str, Any]] = {
    "static": {
        "similarity": {"kind": "similarity"},
        "bm25_margin": {"kind": "bm25_margin"},
        "consistency": {"kind": "consistency"},
        "ranker, cross-fitted": {"kind": "ranker"},
        "margin, cross-fitted": {"kind": "margin", "folds": 2},
        "pair_nll, cross-fitted": {"kind": "pair_nll", "folds": 2},
    },
    "transformer": {
        "similarity": {"kind": "similarity"},
        "margin": {"kind": "margin"},
        "pair_nll": {"kind": "pair_nll"},
    },
}
TOGETHER = ("similarity", "bm25_margin", "margin", "margin, cross-fitted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds sql_annotated.jsonl")
    parser.add_argument("--only", nargs="+", help="detectors, by the names of the table")
    given = parser.parse_args()
    file = given.folder / "sql_annotated.jsonl"
    wrong = {row["id"]: row["label"] == 0 for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    print(f"{len(wrong):,} pairs, {sum(wrong.values()):,} judged wrong\n")
    print("| backbone | detector | AUROC | AP | seconds |\n|---|---|--:|--:|--:|")
    for backbone, known in DETECTORS.items():
        detectors = {name: params for name, params in known.items() if not given.only or name in given.only}
        for name, params in detectors.items():
            _report(backbone, name, _scores(home, file, backbone, {name: params}), wrong)
        both = {} if given.only else {name: params for name, params in detectors.items() if name in TOGETHER}
        if both:
            _report(backbone, " + ".join(both), _scores(home, file, backbone, both), wrong)


def _scores(home: Path, file: Path, backbone: str, detectors: dict[str, Any]) -> tuple[dict[str, float], float]:
    """The score of every document's pair, as the detect stage combines the detectors, and the seconds of scoring."""
    settings = {
        "name": "staqc",
        "data": {"kind": "pairs", "path": str(file), "columns": COLUMNS},
        "model": {"backbone": backbone},
        "detectors": detectors,
    }
    exp, store = experiments.from_settings(settings, []), Store(home / "store", home=home)
    tracker = open_tracker(experiment=exp, home=home, enabled=False)
    outcome = run_experiment(exp, Choice(to="detect"), Execution(store=store, tracker=tracker), pipeline=audit_pairs)
    flags = store.builds.table(outcome.results["detect"].meta.ref("noise_flags"))
    metas = [result.meta for result in outcome.results.values() if result.meta.stage == "score_pairs"]
    scores = dict(zip(flags["doc_id"].to_pylist(), flags["score"].to_pylist(), strict=True))
    return scores, sum(meta.seconds for meta in metas)


def _report(backbone: str, name: str, measured: tuple[dict[str, float], float], wrong: dict[str, bool]) -> None:
    scores, seconds = measured
    found, truth = np.array([(scores[doc_id], wrong[doc_id]) for doc_id in scores]).T
    quality = detection_quality(found, np.ones(len(found), bool), truth.astype(bool))
    print(
        f"| {backbone} | {name} | {quality['auroc']:.3f} | {quality['average_precision']:.3f} | {seconds:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
