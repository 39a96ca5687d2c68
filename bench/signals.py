"""Signals of wrong pairs on sets of which the truth is known: each alone, and beside the ensemble, with its cost.

    python -m bench.signals --data ../shared/data --home .signals --sets staqc nl2bash

Sets are those of bench.scored_sets.  A detector runs as the audit runs it, on all pairs and without labels; AUROC and
average precision are of its scores.  A seed draws what a detector draws: folds, made-up pairs, batches.  The last
column compares with the ensemble alone under the same seeds.  Writes benchmarks/signals.json; sets and signals that
are not named keep their rows.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bench.remembered import remember_texts
from bench.scored_sets import audited, detected
from bench.tables import read, record
from noisyir.engine.store import Store
from noisyir.evaluation.detection import detection_quality

ENSEMBLE, RANKER, CONSISTENCY = ({"kind": kind} for kind in ("ensemble", "ranker", "consistency"))
LOSSES = {"kind": "pair_nll", "folds": 2}
SIGNALS: dict[str, dict[str, Any]] = {
    "ensemble": {"detectors": {"ensemble": ENSEMBLE}},
    "similarity": {"detectors": {"similarity": {"kind": "similarity"}}},
    "bm25_margin": {"detectors": {"bm25_margin": {"kind": "bm25_margin"}}},
    "consistency": {"detectors": {"consistency": CONSISTENCY}},
    "margin, cross-fitted": {"detectors": {"margin": {"kind": "margin", "folds": 2}}},
    "pair_nll, cross-fitted": {"detectors": {"pair_nll": LOSSES}},
    "ensemble + consistency": {"detectors": {"ensemble": ENSEMBLE, "consistency": CONSISTENCY}},
    "ensemble + pair_nll": {"detectors": {"ensemble": ENSEMBLE, "pair_nll": LOSSES}},
    "similarity, MiniLM": {"detectors": {"similarity": {"kind": "similarity"}}, "model": {"backbone": "transformer"}},
    "ranker, cross-fitted": {"detectors": {"ranker": RANKER}},
    "ensemble + ranker": {"detectors": {"ensemble": ENSEMBLE, "ranker": RANKER}},
}
HEADINGS = [
    "set",
    "signal",
    "AUROC",
    "average precision",
    "seconds a seed",
    "AUROC less the ensemble's, 95 % over seeds",
]
NAMED = ("staqc", "nl2bash", "conala:neighbour", "squad:half_answer")


def main() -> None:
    """Run what is named, and record each set as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".signals"), help="where runs are kept")
    parser.add_argument("--sets", nargs="+", choices=NAMED, default=list(NAMED))
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    given.home.mkdir(parents=True, exist_ok=True)
    remember_texts()
    for name in given.sets:
        found = {
            signal: np.array([measured(name, signal, seed, given.data, given.home) for seed in range(given.seeds)])
            for signal in dict.fromkeys(["ensemble", *given.signals])
        }
        made = [row_of(name, signal, values, found["ensemble"]) for signal, values in found.items()]
        try:
            rows = [row for row in read("signals")["table"][1:] if row[:2] not in [one[:2] for one in made]]
        except FileNotFoundError:
            rows = []
        rows = sorted([*rows, *made], key=lambda row: (NAMED.index(row[0]), list(SIGNALS).index(row[1])))
        claim = "Signals of wrong pairs, each alone and beside the ensemble, without labels."
        record("signals", [HEADINGS, *rows], left=2, claim=claim, seeds=given.seeds)
        for row in made:
            print(" | ".join(row), flush=True)


def measured(name: str, signal: str, seed: int, data: Path, home: Path) -> tuple[float, float, float]:
    """AUROC, average precision, and the seconds of scoring."""
    store = Store(home / "store", home=home)
    outcome = audited(name, data, home, {**SIGNALS[signal], "seed": seed})
    flags, wrong = detected(name, data, outcome, store)
    score = flags["score"].to_numpy().astype(np.float64)
    quality = detection_quality(score, np.ones(len(score), bool), wrong)
    metas = [result.meta for result in outcome.results.values()]
    return quality["auroc"], quality["average_precision"], sum(m.seconds for m in metas if m.stage == "score_pairs")


def row_of(name: str, signal: str, values: np.ndarray, ensemble: np.ndarray) -> list[str]:
    """values: (seeds, 3) of `measured`.  A detector that draws nothing has no interval."""
    auroc, precision, seconds = values.mean(axis=0)
    gains = values[:, 0] - ensemble[:, 0]
    beside = "" if signal == "ensemble" else f"{gains.mean():+.3f}"
    if np.ptp(gains) > 1e-9:  # else it draws nothing
        half = stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains)
        beside += f" [{gains.mean() - half:+.3f}, {gains.mean() + half:+.3f}]"
    return [name, signal, f"{auroc:.3f}", f"{precision:.3f}", f"{seconds:.0f}", beside]


if __name__ == "__main__":
    main()
