"""What each null says of the noise rate, for every kind of noise that `corrupt` can put in: a matrix in Markdown.

    python bench/rate_matrix.py ../shared/data/squad --pairs 3000 --rates 0.24

Of SQuAD's first questions so many are kept, a share of them is made wrong by each kind of noise in turn, and the
experiment's detectors judge them as the audit does.  A cell is what a null says: the rate, and how far it may be
believed (`noisyir.noise.rate.RateByNull.reading`).  The last columns: the range over all nulls as it is printed, and
whether it holds the truth (`yes`), or the text says that it cannot be known (`said`), or neither (`NO`).
A kind of noise in a file of its own is taken up by itself.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisyir import experiments
from noisyir.app.runs import run_experiment
from noisyir.data.flags import last_estimate
from noisyir.data.noise import Noise
from noisyir.engine.observe import Silent
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.errors import DataError
from noisyir.noise.detection import nulls_in
from noisyir.noise.null import NULLS, Null
from noisyir.noise.rate import RateByNull, rate_range
from noisyir.pipelines.retrievers import audit_pairs
from noisyir.tracking import open_tracker
from noisyir.verdicts.rates import cannot_be_known


def main() -> None:
    """Print the matrix, a row as soon as it is known, and how many rows hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad", type=Path, help="holds train-v1.1.json")
    parser.add_argument("--pairs", type=int, default=3000, help="training pairs")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.05, 0.24, 0.5], help="shares made wrong")
    parser.add_argument("--kinds", nargs="+", default=sorted(Noise.variants()), help="of noise")
    parser.add_argument("--detectors", type=json.loads, default={}, help="the setting, in JSON, if not the default")
    given = parser.parse_args()
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    slice_of(given.squad, given.pairs, home / "slice")
    names = ["noise", "truth", *NULLS, "range", "holds"]
    print(f"| {' | '.join(names)} |\n|---|--:|{'---|' * (len(names) - 2)}", flush=True)
    held = [row(home, kind, rate, given.detectors) for kind, rate in cells(given.kinds, given.rates)]
    known = [value for value in held if value is not None]
    print(
        f"\nThe range held the truth, or the text said that it cannot be known, in {sum(known)} of {len(known)} rows."
    )


def cells(kinds: list[str], rates: list[float]) -> Iterator[tuple[str, float]]:
    """No noise, and every kind at every rate."""
    yield "uniform", 0.0
    for kind in kinds:
        yield from ((kind, rate) for rate in rates)


def slice_of(squad: Path, pairs: int, folder: Path) -> None:
    """Articles of SQuAD's training file, a few of dev, with every so manieth question of each paragraph kept."""
    folder.mkdir(parents=True, exist_ok=True)
    data = json.loads((squad / "train-v1.1.json").read_text(encoding="utf-8"))["data"]
    total = sum(len(paragraph["qas"]) for article in data for paragraph in article["paragraphs"])
    step, number = total / pairs, 0
    for article in data:
        for paragraph in article["paragraphs"]:
            kept = []
            for question in paragraph["qas"]:
                if int((number + 1) / step) > int(number / step):
                    kept.append(question)
                number += 1
            paragraph["qas"] = kept
        article["paragraphs"] = [paragraph for paragraph in article["paragraphs"] if paragraph["qas"]]
    dev = json.loads((squad / "dev-v1.1.json").read_text(encoding="utf-8"))["data"][:1]
    for name, articles in (("train", data), ("dev", dev)):
        (folder / f"{name}-v1.1.json").write_text(json.dumps({"data": articles}), encoding="utf-8")


def row(home: Path, kind: str, rate: float, detectors: dict[str, Any]) -> bool | None:
    """Print a row; whether it holds, None where this noise cannot be put in."""
    try:
        estimate, truth = judged(home, kind, rate, detectors)
    except DataError as error:
        print(f"| {kind} {rate:.0%} | - | {error} |", flush=True)
        return None
    said = nulls_in(estimate)
    low, high = rate_range(said)
    holds = low <= truth <= high
    verdict = "yes" if holds else "said" if cannot_be_known(said) else "NO"
    cells = [_cell(said, null) for null in NULLS]
    printed = f"{low:.1%} to {high:.1%}{' (cannot be known)' if cannot_be_known(said) else ''}"
    print(f"| {kind if rate else 'none'} | {truth:.1%} | {' | '.join(cells)} | {printed} | {verdict} |", flush=True)
    return verdict != "NO"


def judged(home: Path, kind: str, rate: float, detectors: dict[str, Any]) -> tuple[dict[str, float], float]:
    """What detect estimates, and the share of the training pairs that were made wrong."""
    settings = {
        "name": "rate_matrix",
        "data": {"kind": "squad", "path": str(home / "slice")},
        "noise": {"kind": kind, "rate": rate},
        **({"detectors": detectors} if detectors else {}),
    }
    exp, store = experiments.from_settings(settings, []), Store(home / "store", home=home)
    tracker = open_tracker(experiment=exp, home=home, enabled=False)
    outcome = run_experiment(
        exp, Choice(to="detect"), store=store, runtime=Runtime(threads=1), tracker=tracker, observer=Silent(),
        pipeline=audit_pairs,
    )  # fmt: skip
    estimate = read_parts(store.fs, store.parts(outcome.results["detect"].meta.ref("noise_estimate")))
    truth = read_parts(store.fs, store.parts(outcome.results["corrupt"].meta.ref("noise_truth")))
    return last_estimate(estimate), sum(truth["is_noisy"].to_pylist()) / truth.num_rows


def _cell(said: dict[Null, RateByNull], null: Null) -> str:
    if null not in said:
        return "-"
    found = said[null]
    return f"{found.rate:.1%} [{found.low:.1%}, {found.high:.1%}] {found.reading}, tail {found.tail:.2f}"


if __name__ == "__main__":
    main()
