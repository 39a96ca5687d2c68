"""What each null says of the noise rate, for every kind of noise that `corrupt` can put in: a matrix in Markdown.

    python -m bench.rate_matrix ../shared/data/squad --pairs 3000 --rates 0.24
    python -m bench.rate_matrix pairs.jsonl --rates 0.24
    python -m bench.rate_matrix pydocs --rates 0.24 --kinds uniform
    python -m bench.rate_matrix ../shared/data/squad --pairs 200 --rates 0.2 --kinds uniform neighbour --seeds 5

Of SQuAD's questions so many are kept, or all pairs of a file that are right, a share of them is made wrong by each kind
of noise in turn, and the experiment's detectors judge them as the audit does.  A cell is what a null says: the rate,
and how far it may be believed (`noisyir.detection.rate.RateByNull.reading`).  Then: the range over all nulls as it is
printed, and whether it holds the truth (`yes`), or the text says that it cannot be known (`said`), or neither (`NO`).
Last: the share that is flagged, the share of these that is right in truth, and AUROC.  The last lines count.
A kind of noise in a file of its own is taken up by itself.  Texts that many cells have are encoded once.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.remembered import remember_texts
from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import DataError
from noisyir.corruption.kinds import Corruption
from noisyir.detection.rate import RateByNull, rate_range
from noisyir.detection.rate_sentences import cannot_be_known
from noisyir.detection.settings import NULLS, Null
from noisyir.detection.verdicts import nulls_in
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.evaluation.detection import detection_quality
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.registry import open_tracker
from noisyir.training.flags import last_estimate


def main() -> None:
    """Print the matrix, a row as soon as it is known, and how often an agreement is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="SQuAD's folder, holding train-v1.1.json, a file of pairs, or pydocs")
    parser.add_argument("--pairs", type=int, default=3000, help="training pairs kept of SQuAD")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.05, 0.24, 0.5], help="shares made wrong")
    parser.add_argument("--kinds", nargs="+", default=sorted(Corruption.variants()), help="of noise")
    parser.add_argument("--seeds", type=int, default=1, help="draws of the noise, and of made-up pairs")
    parser.add_argument("--detectors", type=json.loads, default={}, help="the setting, in JSON, if not the default")
    given = parser.parse_args()
    remember_texts()
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    data: dict[str, Any] = {"kind": "pairs", "path": str(given.data)}
    if str(given.data) == "pydocs":
        data = {"kind": "pydocs", "max_documents": 4500, "dev_queries": 100, "test_queries": 100}
    if given.data.is_dir():
        data = {"kind": "squad", "path": str(slice_of(given.data, given.pairs, home / "slice"))}
    names = ["noise", "truth", *NULLS, "range", "holds", "flagged, right of these", "AUROC"]
    print(f"| {' | '.join(names)} |\n|---|--:|{'---|' * (len(names) - 2)}", flush=True)
    rows = [
        row(
            home,
            {"data": data, "seed": seed, **({"detectors": given.detectors} if given.detectors else {})},
            kind,
            rate,
        )
        for kind, rate in cells(given.kinds, given.rates)
        for seed in range(given.seeds)
    ]
    known = [found for found in rows if found]
    agreed, wrong = sum(found.agrees for found in known), sum(found.is_wrongly_agreed for found in known)
    print(f"\nA null agreed in {agreed} of {len(known)} rows, and none of those that did held the truth in {wrong}.")
    flagged = [found for found in known if found.flagged]
    right = sum(found.right for found in flagged) / max(1, sum(found.flagged for found in flagged))
    print(f"Pairs were flagged in {len(flagged)} rows; of all that were, {right:.1%} are right.")


def cells(kinds: list[str], rates: list[float]) -> Iterator[tuple[str, float]]:
    """No noise, and every kind at every rate."""
    yield "uniform", 0.0
    for rate in rates:
        yield from ((kind, rate) for kind in kinds)


def slice_of(squad: Path, pairs: int, folder: Path) -> Path:
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
    return folder


def row(home: Path, settings: dict[str, Any], kind: str, rate: float) -> "Found | None":
    """Print a row; None where this noise cannot be put in."""
    try:
        found = judged(home, {**settings, "name": "rate_matrix", "noise": {"kind": kind, "rate": rate}})
    except DataError as error:
        print(f"| {kind} {rate:.0%} | - | {error} |", flush=True)
        return None
    said, truth = nulls_in(found.estimate), found.truth
    low, high = rate_range(said)
    verdict = "said" if cannot_be_known(said) else "NO" if found.is_wrongly_agreed else "yes"
    cells = [_cell(said, null) for null in NULLS]
    printed = f"{low:.1%} to {high:.1%}{' (cannot be known)' if cannot_be_known(said) else ''}"
    shown = [kind if rate else "none", f"{truth:.1%}", *cells, printed, verdict, found.told(), found.auroc]
    print(f"| {' | '.join(shown)} |", flush=True)
    return found


@dataclass(frozen=True)
class Found:
    """estimate: what detect estimates.  truth: the share of the training pairs that were made wrong.

    pairs, flagged, right: how many there are, are flagged, and of these are right.
    auroc: how often a wrong pair is more suspect than a right one, in digits; a dash where none is wrong.
    """

    estimate: dict[str, float]
    truth: float
    pairs: int
    flagged: int
    right: int
    auroc: str

    @property
    def agreeing(self) -> list[RateByNull]:
        """The nulls that the scores agree with."""
        return [found for found in nulls_in(self.estimate).values() if found.reading == "agrees"]

    @property
    def agrees(self) -> bool:
        """Whether one does."""
        return bool(self.agreeing)

    @property
    def is_wrongly_agreed(self) -> bool:
        """Whether one does, and no interval of those that do holds the truth."""
        return self.agrees and not any(found.low <= self.truth <= found.high for found in self.agreeing)

    def told(self) -> str:
        """The share flagged, and the share of these that is right."""
        return f"{self.flagged / self.pairs:.1%}, {self.right / self.flagged:.1%}" if self.flagged else "-"


def judged(home: Path, settings: dict[str, Any]) -> Found:
    """What the audit's stages say of the data with this noise."""
    exp, store = experiments.from_settings(settings, []), Store(home / "store", home=home)
    tracker = open_tracker(experiment=exp, home=home, enabled=False)
    outcome = run_experiment(
        exp,
        Choice(to="detect"),
        Execution(store=store, runtime=Runtime(threads=1), tracker=tracker),
        pipeline=audit_pairs,
    )

    def table(step: str, artifact: str) -> pa.Table:
        return store.builds.table(outcome.results[step].meta.ref(artifact))

    estimate, truth = last_estimate(table("detect", "noise_estimate")), table("corrupt", "noise_truth")
    flags = table("detect", "noise_flags").join(truth, ["query_id", "doc_id"]).sort_by("score")
    scores, is_clean, is_wrong = (flags[name].to_numpy() for name in ("score", "is_clean", "is_noisy"))
    quality = detection_quality(scores, is_clean, is_wrong)
    auroc = f"{quality['auroc']:.3f}" if is_wrong.any() else "-"
    counts = len(scores), int((~is_clean).sum()), int((~is_clean & ~is_wrong).sum())
    return Found(estimate, float(is_wrong.mean()), *counts, auroc)


def _cell(said: dict[Null, RateByNull], null: Null) -> str:
    if null not in said:
        return "-"
    found = said[null]
    return f"{found.rate:.1%} [{found.low:.1%}, {found.high:.1%}] {found.reading}, tail {found.tail:.2f}"


if __name__ == "__main__":
    main()
