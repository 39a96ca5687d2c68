"""What training makes of wrong pairs, real and injected: plain, weighted, repaired, dropped, corrected, and by choice.

    python -m bench.real_noise_training --data staqc ../shared/data/staqc_sql
    python -m bench.real_noise_training --data nl2bash ../shared/data/nl2bash --methods dpr npc auto
    python -m bench.real_noise_training --data squad ../shared/data/squad --pairs 4000 --mechanism half_answer
    python -m bench.real_noise_training --data pydocs --max-documents 6000 --rate 0

staqc: trained on all pairs of half of the questions, tested on those of the other half that people judged right.
conala: trained on pairs written by hand, of which none is wrong.
nl2bash: trained on the judged predictions of models, tested on experts' own pairs of other descriptions.
squad, pydocs: noise of the kind and rate asked for is put into the training pairs; tests stay right.
The truth is read for two rows alone, `human` (trained on the pairs that people call right) and `true_labels` (trained
on the pairs that no noise was put into), and for the tests.  `random` leaves out as many pairs as the detectors flag,
drawn at random.  Static model; each method is compared with plain training (dpr) by a t-test over queries and seeds
(`noisyir.evaluation.significance.crossed_t_test`), corrected by Holm for all rows of the table.  Below it stands what
NPC and `auto` did.  Methods by name act on the kind of made-up pairs that fits best (`detect.assume=best`).
"""

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.labelled_sets import READERS, write_beir, write_folder
from bench.remembered import remember_texts
from noisyir.app.runs import Execution, Outcome, run_suite
from noisyir.base.settings import merged
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store
from noisyir.engine.tables import pair_ids
from noisyir.evaluation.bench import Cell, CellBlock, by_cell, read_blocks
from noisyir.evaluation.significance import Difference, crossed_t_test, holm
from noisyir.methods.plans.bench import noise_bench
from noisyir.methods.plans.suite import Suite
from noisyir.registry import open_tracker

METHODS = ["dpr", "reweight", "relabel", "reweight_relabel", "drop", "npc", "npc_flags", "npc_relabel",
           "auto", "random", "true_labels"]  # fmt: skip
MADE_HERE = ("random", "true_labels")
MEASURE = "nDCG@10"
SMALL = {"epochs": 12, "batch_size": 128, "learning_rate": 3e-3, "dev_queries": 0}
LARGE = {"epochs": 5, "batch_size": 512, "learning_rate": 3e-3, "decay": "constant", "warmup_ratio": 0.0,
         "dev_queries": 0}  # fmt: skip


def main() -> None:
    asked = arguments()
    block, told = measured(asked, Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp()))
    _print(block, asked.data)
    print("\n" + "\n".join(f"{what}: {how}" for what, how in told.items()), flush=True)


def measured(asked: argparse.Namespace, home: Path) -> tuple[CellBlock, dict[str, str]]:
    """What every method is worth on each query under each seed, and what was told on the way."""
    remember_texts()
    bench = Bench(asked, home)
    methods = [method for method in asked.methods if method not in MADE_HERE]
    if bench.rate and "true_labels" in asked.methods:
        methods.append("oracle")
    cells = bench.cells(methods, bench.data(), range(asked.seeds), asked.mechanism, bench.rate)
    told = dict(bench.told())
    (block,) = read_blocks(by_cell({**cells, **bench.arms()}))
    return block, told


def against_plain(block: CellBlock) -> dict[str, Difference]:
    """Each other method's difference to plain training; p is corrected by Holm for all of them."""
    values = dict(zip(block.methods, block.values, strict=True))
    plain = values.pop("dpr")
    tests = {method: crossed_t_test((found - plain).T, block.groups) for method, found in values.items()}
    corrected = holm(np.array([test.p_value for test in tests.values()]))
    return {name: test._replace(p_value=float(p)) for (name, test), p in zip(tests.items(), corrected, strict=True)}


class Bench:
    """One set of data with one kind of noise; all runs share a store."""

    plan: Plan
    outcome: Outcome

    def __init__(self, asked: argparse.Namespace, home: Path) -> None:
        self.asked, self.home = asked, home
        self.store = Store(home / "store", home=home)
        self.labelled = READERS[asked.data](asked.folder, asked.pairs) if asked.data in READERS else None
        self.judged = self.labelled is not None and self.labelled.is_right is not None
        self.rate = 0.0 if self.judged else asked.rate

    def data(self) -> dict[str, Any]:
        """The experiment's `data`: all of it."""
        if self.labelled is None:
            return {"kind": "pydocs", "max_documents": self.asked.max_documents, "dev_queries": 0}
        folder = self.home / f"{self.asked.data}_{self.asked.pairs or 'all'}"
        write_beir(self.labelled, range(len(self.labelled.train)), folder)
        return _folder(folder)

    def cells(
        self, methods: Sequence[str], data: dict[str, Any], seeds: Sequence[int], kind: str, rate: float
    ) -> dict[str, pa.Table]:
        """Per-query values of each method and seed, by the label of a bench's cell."""
        suite = self._suite(methods, data, seeds, {"kind": kind, "rate": rate})
        tracker = open_tracker(experiment=suite.experiment, home=self.home, enabled=False)
        how = {"store": self.store, "runtime": Runtime(threads=1), "tracker": tracker, "observer": Observer()}
        self.outcome, self.plan = run_suite(suite, Choice(), Execution(**how)), noise_bench(suite)
        (table,) = self.plan.named("noise_table")
        return {label: self._read(output.step, output.artifact) for label, output in table.inputs["metrics"].items()}

    def arms(self) -> dict[str, pa.Table]:
        """Plain training on the pairs that people call right, and on as many as the detectors leave, at random."""
        kept = {}
        for seed in range(self.asked.seeds):
            (corrupt,) = self._steps("corrupt", seed)
            if "random" in self.asked.methods:
                (flags,) = (self._read(step.name, "noise_flags") for step in self._steps("detect", seed))
                draw = np.random.default_rng(seed).permutation(flags.num_rows)
                kept["random", seed] = corrupt, np.sort(draw[pc.sum(pc.invert(flags["is_clean"])).as_py() or 0 :])
            if self.judged and "true_labels" in self.asked.methods:
                kept["human", seed] = corrupt, np.flatnonzero(self._right(corrupt))
        folders = {arm: self._folder_with(*given, "_".join(map(str, arm))) for arm, given in kept.items()}
        found = {}
        for (arm, seed), folder in folders.items():
            (values,) = self.cells(["dpr"], _folder(folder), [seed], self.asked.mechanism, 0.0).values()
            found[str(Cell(self.asked.mechanism, self.rate, arm, seed))] = values
        return found

    def _right(self, corrupt: Step) -> list[bool]:
        """Which of the training pairs that were read people call right."""
        assert self.labelled is not None and self.labelled.is_right is not None
        verdicts = dict(zip(self.labelled.train, self.labelled.is_right, strict=True))
        pairs = self._read(corrupt.name, "noisy_pairs")
        return [verdicts[pair] for pair in pair_ids(pairs.filter(pc.equal(pairs["split"], "train")))]

    def told(self) -> Iterator[tuple[str, str]]:
        """What detectors flagged, when NPC began, and what `auto` chose, over the seeds."""
        flags = [self._read(step.name, "noise_flags")["is_clean"].to_pylist() for step in self._steps("detect")]
        if flags:
            shares = [f"{100 * some.count(False) / len(some):.0f}" for some in flags]
            yield "flagged", " to ".join(sorted({min(shares, key=int), max(shares, key=int)}, key=int)) + " %"
        for method in ("npc", "npc_flags", "npc_relabel"):
            steps = [step for step in self._steps("train_npc") if step.name.endswith(f":{method}")]
            steps = [step for step in steps if "trial" not in step.name]
            if begun := [self.outcome.results[step.name].meta.notes["corrected"] for step in steps]:
                yield f"{method} began to correct", f"in {sum(begun)} of {len(begun)} runs"
        chosen = [self.outcome.results[step.name].meta.notes["chosen"] for step in self._steps("choose_model")]
        if chosen:
            yield "auto chose", ", ".join(f"{method} {count}" for method, count in Counter(chosen).items())

    def _suite(
        self, methods: Sequence[str], data: dict[str, Any], seeds: Sequence[int], noise: dict[str, Any]
    ) -> Suite:
        size = self.asked.pairs or self.asked.max_documents
        small = self.judged or (size is not None and size < 20_000)
        experiment = {
            "name": "training", "data": data, "train": SMALL if small else LARGE, "encode": {"splits": ["test"]},
            "search": {"top_k": 10}, "score": {"splits": ["test"], "measures": [MEASURE]},
            "detect": {"assume": "best"},
        }  # fmt: skip
        for setting in self.asked.set:
            name, _, value = setting.partition("=")
            for part in reversed(name.split(".")):
                value = {part: value}
            experiment = merged(experiment, value)
        return Suite(name="training", experiment=experiment, noise=[noise], methods=methods, seeds=seeds,
                     detect="drop" in methods)  # fmt: skip

    def _steps(self, stage: str, seed: int | None = None) -> list[Step]:
        return [step for step in self.plan.steps if step.stage.name == stage and seed in (None, step.seed, _of(step))]

    def _read(self, step: str, artifact: str) -> pa.Table:
        return self.store.builds.table(self.outcome.results[step].meta.ref(artifact))

    def _folder_with(self, corrupt: Step, kept: np.ndarray, name: str) -> Path:
        """A BEIR folder with some of a seed's noisy training pairs, and its collection and test as they are."""
        (ingest,) = self._steps("ingest")
        changed = "corpus" in self.outcome.results[corrupt.name].meta.artifacts
        corpus = self._read(corrupt.name if changed else ingest.name, "corpus")
        queries, pairs = self._read(ingest.name, "queries"), self._read(corrupt.name, "noisy_pairs")
        tested = queries.filter(pc.equal(queries["split"], "test"))
        test = self._read(ingest.name, "qrels").filter(pc.field("relevance") > 0)
        test = test.filter(pc.is_in(test["query_id"], tested["query_id"]))
        train = pairs.filter(pc.equal(pairs["split"], "train")).take(kept)
        asked = pc.is_in(queries["query_id"], pa.chunked_array([*train["query_id"].chunks, *test["query_id"].chunks]))
        folder = self.home / f"{self.asked.data}_{self.asked.pairs}_{self.asked.mechanism}_{self.rate}_{name}"
        documents = ({"_id": row["doc_id"], "title": row["title"], "text": row["text"]} for row in corpus.to_pylist())
        texts = ({"_id": row["query_id"], "text": row["text"]} for row in queries.filter(asked).to_pylist())
        parts = {"train": train, "test": test}
        qrels = {part: list(pair_ids(rows)) for part, rows in parts.items()}
        write_folder(folder, documents, texts, qrels)
        return folder


def _of(step: Step) -> int | None:
    """The seed of what a step without one of its own reads, by its label, `uniform:0.4:SEED`."""
    last = step.name.rpartition(":")[2]
    return int(last) if last.isdecimal() else None


def _folder(path: Path) -> dict[str, Any]:
    return {"kind": "beir", "path": str(path), "on_empty": "exclude"}


def _print(block: CellBlock, data: str) -> None:
    """One Markdown row a method, against plain training."""
    _, seeds, queries = block.values.shape
    print(f"\n{data}, {block.mechanism} {block.rate:g}: {queries:,} queries, {seeds} seeds\n")
    print(f"| | {MEASURE} | ± over seeds | less plain, 95 % | p, Holm | seeds above plain |\n|---|--:|--:|--:|--:|--:|")
    for row in _rows(block):
        print(row, flush=True)


def _rows(block: CellBlock) -> Iterator[str]:
    means = dict(zip(block.methods, block.values.mean(axis=2), strict=True))
    tests = against_plain(block)
    for method, of_seed in means.items():
        spread = f"{of_seed.std(ddof=1):.3f}" if len(of_seed) > 1 else ""
        line = f"| {'true_labels' if method == 'oracle' else method} | {of_seed.mean():.3f} | {spread} |"
        if method in tests:
            test, above = tests[method], int((of_seed > means["dpr"]).sum())
            line += f" {test.mean:+.4f} [{test.low:+.3f}, {test.high:+.3f}] | {test.p_value:.3f} | {above} |"
        else:
            line += " | | |"
        yield line


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """As on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="of the data; pydocs needs none")
    parser.add_argument("--data", choices=[*READERS, "pydocs"], required=True)
    parser.add_argument("--mechanism", default="uniform", help="noise.kind, where noise is put in")
    parser.add_argument("--rate", type=float, default=0.5, help="noise.rate, where noise is put in; 0: the set's own")
    parser.add_argument("--pairs", type=int, help="training pairs read, at most")
    parser.add_argument("--max-documents", type=int, help="of pydocs, at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=METHODS, help="dpr is what the others are compared with")
    parser.add_argument("--set", nargs="*", default=[], help="other settings, such as train.epochs=6")
    asked = parser.parse_args(given)
    if asked.data in READERS and asked.folder is None:
        parser.error(f"--data {asked.data} needs its folder")
    asked.methods = list(dict.fromkeys(["dpr", *asked.methods]))
    return asked


if __name__ == "__main__":
    main()
