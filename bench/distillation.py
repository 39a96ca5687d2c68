"""Distillation beside every other answer to wrong labels, at equal passage-tower passes, with passes and seconds shown.

    python -m bench.distillation squad ../shared/data/squad --noise neighbour:0.5 uniform:0.2
    python -m bench.distillation staqc ../shared/data/staqc_sql
    python -m bench.distillation nfcorpus ../shared/data/beir/nfcorpus --arms plain distill:hybrid --seeds 2

The hypothesis that stands above the table, of arXiv:2507.08336: an own ranker of the student's size teaches nothing.
Every arm but `plain` passes as many passages through the passage tower: a pair that learns from a list of `--size`
documents for `--epochs` epochs costs as much as one that learns from its own for `--size` times as many.  Batches of
lists hold as many passages as those of pairs, so that all take as many steps.  `plain` has the usual epochs.  `auto`
trains more: its trials are counted.  Each arm is compared with `plain_long` by a t-test over queries and seeds,
corrected by Holm.  Static model, unless `--set-also model.backbone=transformer`.
`--record NAME` writes benchmarks/NAME.json.  Each noise has its own store, which is deleted; or NOISYIR_HOME names one.
"""

import argparse
import os
import random
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bench.labelled_sets import READERS, write_beir
from bench.real_noise_training import LARGE, SMALL
from bench.tables import record
from noisyir.app.runs import Execution, Outcome, run_suite
from noisyir.base.settings import merged
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.evaluation.bench import CellBlock, by_cell, read_blocks
from noisyir.evaluation.significance import crossed_t_test, holm
from noisyir.methods.plans.bench import noise_bench
from noisyir.methods.plans.suite import Suite
from noisyir.registry import open_tracker

LABELS = {"plain": "dpr", "plain_long": "dpr", "npc": "npc", "npc_relabel": "npc_relabel",
          "npc_cross_fitted": "npc_flags", "auto": "auto"}  # fmt: skip
# NPC's losses, each by a model that was trained on the other half of the pairs; mixture and correction stay the paper's
CROSS_FITTED: dict[str, Any] = {
    "detectors": {"loss": {"kind": "pair_nll", "folds": 2, "epochs": SMALL["epochs"], "batch_size": 128}},
    "detect": {"method": "gmm", "min_rate": 0.0, "components": "made_up", "assume": "best"},
}
TAUGHT = {
    "distill:ranker": ("distill", "ranker"),
    "distill:bm25": ("distill", "bm25"),
    "distill:hybrid": ("distill", "hybrid"),
    "distill_contrast:hybrid": ("distill_contrast", "hybrid"),
    "distill_contrast_1:hybrid": ("distill_contrast", "hybrid"),
}
ARMS = [*LABELS, *TAUGHT]
HEADINGS = [
    "noise",
    "method",
    "measure",
    "± over seeds",
    "less plain_long, 95 %",
    "p, Holm",
    "passes a pair",
    "seconds",
]
_SHARED = {"ingest", "corrupt", "init_model", "hold_out"}  # no method's own cost


def main() -> None:
    asked = arguments()
    rows = [HEADINGS]
    for noise in asked.noise:
        given = os.environ.get("NOISYIR_HOME")
        with nullcontext(given) if given else tempfile.TemporaryDirectory() as home:
            found = found_under(noise, asked, Path(home))
        rows += rows_of(noise, found)
        for row in rows[-len(found) :]:
            print("| " + " | ".join(row) + " |", flush=True)
        if asked.record:
            claim = f"{asked.set}: methods at equal passage-tower passes, and what each costs."
            record(asked.record, rows, left=2, claim=claim, seeds=asked.seeds)


def found_under(noise: str, asked: argparse.Namespace, home: Path) -> dict[str, tuple[CellBlock, float, float]]:
    """`measured` of every arm under this noise."""
    store, data = Store(home / "store", home=home), data_of(asked, home)
    kind, _, rate = noise.partition(":")
    return {arm: measured(arm, asked, data, {"kind": kind, "rate": float(rate)}, store) for arm in asked.arms}


def data_of(asked: argparse.Namespace, home: Path) -> dict[str, Any]:
    """The experiment's `data`; SQuAD whole, or as many pairs as were asked for."""
    if asked.set not in READERS:
        folder = asked.folder if asked.pairs is None else _drawn(asked.folder, asked.pairs, home / asked.set)
        return {"kind": "beir", "path": str(folder), "on_empty": "exclude"}
    if asked.set == "squad" and asked.pairs is None:
        return {"kind": "squad", "path": str(asked.folder)}
    labelled, folder = READERS[asked.set](asked.folder, asked.pairs), home / asked.set
    write_beir(labelled, range(len(labelled.train)), folder)
    return {"kind": "beir", "path": str(folder), "on_empty": "exclude"}


def _drawn(beir: Path, pairs: int, folder: Path) -> Path:
    """The same folder with so many of its training pairs, drawn at random."""
    if not folder.exists():
        shutil.copytree(beir, folder)
        train = folder / "qrels" / "train.tsv"
        heading, *lines = train.read_text().splitlines(keepends=True)
        train.write_text(heading + "".join(random.Random(0).sample(lines, pairs)))
    return folder


def settings_of(arm: str, asked: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    """The experiment of an arm."""
    large = data["kind"] == "squad"
    train, split = (LARGE, "dev") if large else (SMALL, "test")
    measure = "RR@10" if large else "nDCG@10"
    given: dict[str, Any] = {
        "name": "distillation", "data": data, "train": dict(train), "encode": {"splits": [split]},
        "search": {"top_k": 10}, "score": {"splits": [split], "measures": [measure]}, "hybrid": None,
    }  # fmt: skip
    if arm in TAUGHT:
        given |= {"teacher": {"kind": TAUGHT[arm][1]}, "lists": {"size": asked.size}, "pool": {"depth": asked.depth}}
        given["train"] |= {"epochs": asked.epochs, "batch_size": train["batch_size"] // asked.size}
        given |= {"distill": {"contrastive": 1.0}} if "_1:" in arm else {}  # FlagEmbedding's weight
    elif arm != "plain":
        given["train"]["epochs"] = asked.epochs * asked.size
    if arm == "npc_cross_fitted":
        given |= CROSS_FITTED
    for setting in asked.settings:
        name, _, value = setting.partition("=")
        for part in reversed(name.split(".")):
            value = {part: value}
        given = merged(given, value)
    return given


def measured(
    arm: str, asked: argparse.Namespace, data: dict[str, Any], noise: dict[str, Any], store: Store
) -> tuple[CellBlock, float, float]:
    """What the arm is worth on each query under each seed; passage passes a training pair, and seconds, means."""
    method = LABELS.get(arm) or TAUGHT[arm][0]
    suite = Suite(
        name="distillation", experiment=settings_of(arm, asked, data), noise=[noise], methods=[method],
        seeds=range(asked.seeds), detect=False, table={"baseline": method, "reference": None},
    )  # fmt: skip
    tracker = open_tracker(experiment=suite.experiment, home=store.home, enabled=False)
    how = {"store": store, "runtime": Runtime(threads=1), "tracker": tracker, "observer": Observer()}
    outcome, plan = run_suite(suite, Choice(), Execution(**how)), noise_bench(suite)
    (table,) = plan.named("noise_table")
    read = {
        label: store.builds.table(outcome.results[out.step].meta.ref(out.artifact))
        for label, out in table.inputs["metrics"].items()
    }
    (block,) = read_blocks(by_cell(read))
    costs = [cost_of(label, table.inputs["metrics"][label].step, plan, outcome) for label in read]
    return (block, *np.mean(costs, axis=0).tolist())


def cost_of(label: str, scored: str, plan: Plan, outcome: Outcome) -> tuple[float, float]:
    """Passage passes of all trainings that a model needed, for each of its pairs, and the seconds of all its steps."""
    encoded = {
        step.inputs["model"] for step in plan.steps if step.name in plan.upto([scored]) and step.stage.name == "encode"
    }
    (model,) = {output.step for output in encoded if output.stage != "init_model"}  # a teacher encodes by the latter
    needed = [step for step in plan.steps if step.name in plan.upto([model]) and step.stage.name not in _SHARED]
    passes, pairs = 0.0, 1
    for step in needed:
        notes, params = outcome.results[step.name].meta.notes, step.params.model_dump()
        if step.stage.name.startswith("train_"):
            pairs = max(pairs, notes["training_pairs"])
            passes += notes["training_pairs"] * params["epochs"] * (1 + params["hard_negatives"])
    return passes / pairs, sum(outcome.results[step.name].meta.seconds for step in needed)


def rows_of(noise: str, found: dict[str, tuple[CellBlock, float, float]]) -> list[list[str]]:
    """A row an arm; differences where `plain_long` is among them."""
    values = {arm: block.values[0] for arm, (block, _, _) in found.items()}
    base = values.get("plain_long")
    others = [arm for arm in found if base is not None and arm != "plain_long"]
    tests = {arm: crossed_t_test((values[arm] - base).T, found[arm][0].groups) for arm in others}
    corrected = dict(zip(tests, holm(np.array([test.p_value for test in tests.values()])), strict=True))
    rows = []
    for arm, (_, passes, seconds) in found.items():
        of_seed = values[arm].mean(axis=1)
        spread = f"{of_seed.std(ddof=1):.3f}" if len(of_seed) > 1 else ""
        test = tests.get(arm)
        said = [f"{test.mean:+.4f} [{test.low:+.3f}, {test.high:+.3f}]", f"{corrected[arm]:.3f}"] if test else ["", ""]
        rows.append([noise, arm, f"{of_seed.mean():.4f}", spread, *said, f"{passes:.1f}", f"{seconds:.0f}"])
    return rows


def arguments() -> argparse.Namespace:
    """As on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", help=f"{', '.join(READERS)}, or a name for a folder in BEIR layout")
    parser.add_argument("folder", type=Path, help="of the data")
    parser.add_argument("--noise", nargs="+", default=["uniform:0"], metavar="KIND:RATE")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--pairs", type=int, help="training pairs read, at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=8, help="documents of a list")
    parser.add_argument("--epochs", type=int, default=2, help="of distillation")
    parser.add_argument("--depth", type=int, default=30, help="hits of each retriever that a teacher scores")
    parser.add_argument("--record", metavar="NAME", help="write benchmarks/NAME.json")
    parser.add_argument("--set-also", dest="settings", nargs="*", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
