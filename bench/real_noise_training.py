"""What training makes of wrong pairs, real and injected: plain, weighted, repaired, dropped, corrected, and by choice.

    python bench/real_noise_training.py --data staqc ../shared/data/staqc_sql
    python bench/real_noise_training.py --data nl2bash ../shared/data/nl2bash --methods dpr npc auto
    python bench/real_noise_training.py --data squad ../shared/data/squad --mechanism uniform --rate 0.5 --pairs 20000
    python bench/real_noise_training.py --data pydocs --mechanism uniform --rate 0.4

staqc: trained on all pairs of half of the questions, tested on those of the other half that people judged right.
nl2bash: trained on the judged predictions of models, tested on experts' own pairs of other descriptions.
squad, pydocs: noise of the kind and rate asked for is put into the training pairs; tests stay right.
People's labels are read for two rows alone: `human`, trained on the pairs that they call right, and the test pairs.
`random` leaves out as many pairs as the detectors flag, drawn at random.  Static model; means, intervals and tests
over queries and seeds; a star, from five seeds on, marks a claim about methods.
"""

import argparse
import csv
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisyir.app.runs import Outcome, run_suite
from noisyir.engine.observe import Silent
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.eval.bench import Cell, by_cell, read_blocks, summarise
from noisyir.pipelines.retrievers import noise_bench
from noisyir.pipelines.suite import Suite
from noisyir.report.bench import starred, word
from noisyir.settings import merged
from noisyir.tracking import open_tracker

METHODS = ["dpr", "reweight", "relabel", "drop", "npc", "npc_flags", "npc_relabel", "auto"]
MEASURE = "nDCG@10"
SMALL = {"epochs": 12, "batch_size": 128, "learning_rate": 3e-3, "dev_queries": 0}
LARGE = {"epochs": 5, "batch_size": 512, "learning_rate": 3e-3, "decay": "constant", "warmup_ratio": 0.0,
         "dev_queries": 0}  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    """Training pairs, which of them people call right (None: nobody looked), and a test without wrong pairs."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    train: Sequence[tuple[str, str]]
    is_right: Sequence[bool] | None
    test: Sequence[tuple[str, str]]


def main() -> None:
    asked = _asked()
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    bench = Bench(asked, home)
    cells = bench.cells(asked.methods, bench.data())
    if asked.data in READERS:
        cells |= _renamed(bench.arms(), list(cells))
    _print(cells, asked.data)


class Bench:
    """One set of data with one kind of noise; all runs share a store."""

    def __init__(self, asked: argparse.Namespace, home: Path) -> None:
        self.asked, self.home = asked, home
        self.store = Store(home / "store", home=home)
        self.labelled = READERS[asked.data](asked.folder, asked.pairs) if asked.data in READERS else None
        self.flagged = 0

    def data(self, kept: np.ndarray | None = None, name: str = "all") -> dict[str, Any]:
        """The experiment's `data`, with the training pairs numbered `kept`."""
        if self.labelled is None:
            return {"kind": "pydocs"}
        folder = _write(self.labelled, kept, self.home / f"{self.asked.data}_{name}")
        return {"kind": "beir", "path": str(folder), "on_empty": "exclude"}

    def cells(self, methods: Sequence[str], data: dict[str, Any]) -> dict[str, pa.Table]:
        """Per-query values of each method and seed, by the label of a bench's cell."""
        suite = self._suite(methods, data)
        tracker = open_tracker(experiment=suite.experiment, home=self.home, enabled=False)
        how = {"store": self.store, "runtime": Runtime(), "tracker": tracker, "observer": Silent()}
        outcome, plan = run_suite(suite, Choice(), **how), noise_bench(suite)
        self._count_flagged(outcome, plan)
        (table,) = plan.named("noise_table")
        return {label: self._read(outcome, output) for label, output in table.inputs["metrics"].items()}

    def arms(self) -> dict[str, dict[str, pa.Table]]:
        """Plain training on the pairs that people call right, and on as many as the detectors leave, at random."""
        assert self.labelled is not None
        found, count = {}, len(self.labelled.train)
        if self.labelled.is_right is not None:
            found["human"] = self.cells(["dpr"], self.data(np.flatnonzero(self.labelled.is_right), "human"))
        if self.flagged:
            kept = np.sort(np.random.default_rng(0).choice(count, count - self.flagged, replace=False))
            found["random"] = self.cells(["dpr"], self.data(kept, "random"))
        return found

    def _suite(self, methods: Sequence[str], data: dict[str, Any]) -> Suite:
        small = self.asked.data in ("staqc", "nl2bash")
        experiment = {
            "name": "training", "data": data, "train": SMALL if small else LARGE, "encode": {"splits": ["test"]},
            "search": {"top_k": 10}, "score": {"splits": ["test"], "measures": [MEASURE]},
        }  # fmt: skip
        for setting in self.asked.set:
            name, _, value = setting.partition("=")
            for part in reversed(name.split(".")):
                value = {part: value}
            experiment = merged(experiment, value)
        noise = {"kind": self.asked.mechanism, "rate": 0.0 if small else self.asked.rate}
        seeds, judged = range(self.asked.seeds), {"detect": "drop" in methods}
        return Suite(name="training", experiment=experiment, noise=[noise], methods=methods, seeds=seeds, **judged)

    def _count_flagged(self, outcome: Outcome, plan: Plan) -> None:
        for step in plan.steps:
            if step.stage.name == "detect" and not self.flagged:
                flags = read_parts(self.store.fs, self.store.parts(outcome.results[step.name].meta.ref("noise_flags")))
                self.flagged = flags["is_clean"].to_pylist().count(False)

    def _read(self, outcome: Outcome, output: Any) -> pa.Table:
        return read_parts(self.store.fs, self.store.parts(outcome.results[output.step].meta.ref(output.artifact)))


def _staqc(folder: Path, pairs: int | None) -> Labelled:
    lines = (folder / "sql_annotated.jsonl").read_text(encoding="utf-8").splitlines()[:pairs]
    rows = list(map(json.loads, lines))
    asked = sorted({str(row["qid"]) for row in rows})
    taught = set(np.random.default_rng(0).permutation(asked)[: len(asked) // 2])
    train = [row for row in rows if str(row["qid"]) in taught]
    return Labelled(
        {row["id"]: row["code"] for row in rows},
        {str(row["qid"]): row["title"] for row in rows},
        [(str(row["qid"]), row["id"]) for row in train],
        [row["label"] == 1 for row in train],
        [(str(row["qid"]), row["id"]) for row in rows if str(row["qid"]) not in taught and row["label"] == 1],
    )


def _nl2bash(folder: Path, pairs: int | None) -> Labelled:
    verdicts: dict[tuple[str, str], bool] = {}
    for path in sorted(folder.glob("manual.evaluations.*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                verdicts.setdefault((row["description"], row["prediction"]), row["correct template"].strip() == "y")
    judged = list(verdicts)[:pairs]
    texts, commands = ((folder / name).read_text(encoding="utf-8").splitlines() for name in ("all.nl", "all.cm"))
    described = {description for description, _ in judged}
    others = [(text, command) for text, command in zip(texts, commands, strict=True) if text not in described]
    tested = set(np.random.default_rng(0).permutation(sorted({text for text, _ in others}))[:1500])
    test = [(text, command) for text, command in others if text in tested]
    document = {text: f"d{n}" for n, text in enumerate(dict.fromkeys([*(c for _, c in judged), *commands]))}
    query = {text: f"q{n}" for n, text in enumerate(dict.fromkeys([*(q for q, _ in judged), *(q for q, _ in test)]))}
    return Labelled(
        {name: text for text, name in document.items()},
        {name: text for text, name in query.items()},
        [(query[text], document[command]) for text, command in judged],
        list(verdicts.values())[:pairs],
        list(dict.fromkeys((query[text], document[command]) for text, command in test)),
    )


def _squad(folder: Path, pairs: int | None) -> Labelled:
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    found: dict[str, list[tuple[str, str]]] = {"train": [], "dev": []}
    for split, rows in found.items():
        for number, (passage, question) in enumerate(_questions(folder / f"{split}-v1.1.json")):
            if pairs is not None and number >= (pairs if split == "train" else 2000):
                break
            doc_id = documents.setdefault(passage, f"d{len(documents)}")
            queries[f"{split}{number}"] = question
            rows.append((f"{split}{number}", doc_id))
    return Labelled({name: text for text, name in documents.items()}, queries, found["train"], None, found["dev"])


def _questions(path: Path) -> Iterator[tuple[str, str]]:
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield paragraph["context"], question["question"]


READERS = {"staqc": _staqc, "nl2bash": _nl2bash, "squad": _squad}


def _write(labelled: Labelled, kept: np.ndarray | None, folder: Path) -> Path:
    """A BEIR folder with these training pairs; documents and test are the same whatever they are."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    chosen = range(len(labelled.train)) if kept is None else kept
    train = [labelled.train[number] for number in chosen]
    asked = {query for query, _ in [*train, *labelled.test]}
    texts = {"corpus": labelled.documents, "queries": {q: t for q, t in labelled.queries.items() if q in asked}}
    for name, rows in texts.items():
        lines = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in rows.items())
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    for split, pairs in {"train": train, "test": labelled.test}.items():
        lines = (f"{query}\t{document}\t1\n" for query, document in pairs)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), "utf-8")
    return folder


def _renamed(arms: Mapping[str, Mapping[str, pa.Table]], labels: Sequence[str]) -> dict[str, pa.Table]:
    """The arms' values beside the methods': labelled as under the same noise."""
    like = Cell.parse(labels[0])
    found = {}
    for arm, cells in arms.items():
        for label, table in cells.items():
            found[str(Cell(like.mechanism, like.rate, arm, Cell.parse(label).seed))] = table
    return found


def _print(cells: Mapping[str, pa.Table], data: str) -> None:
    """One Markdown row a method, against plain training."""
    table = summarise(read_blocks(by_cell(cells)), baseline="dpr")
    print(f"\n{data}: {table['queries'][0].as_py():,} queries, {table['seeds'][0].as_py()} seeds\n")
    print(f"| | {MEASURE} | ± over seeds | less plain, 95 % | p, Holm | seeds above plain | |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for row in table.to_pylist():
        spread = "" if row["seed_std"] is None else f"{row['seed_std']:.3f}"
        line = f"| {row['method']} | {row['mean']:.3f} | {spread} |"
        if row["against"]:
            low, high = row["difference_low"], row["difference_high"]
            said = f"{row['seeds_better']} | {starred(word(row, 0.05))}"
            line += f" {row['difference']:+.3f} [{low:+.3f}, {high:+.3f}] | {row['p_holm']:.3f} | {said}"
        else:
            line += " | | | "
        print(f"{line} |", flush=True)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="of the data; pydocs needs none")
    parser.add_argument("--data", choices=[*READERS, "pydocs"], required=True)
    parser.add_argument("--mechanism", default="uniform", help="noise.kind, where noise is put in")
    parser.add_argument("--rate", type=float, default=0.5, help="noise.rate, where noise is put in")
    parser.add_argument("--pairs", type=int, help="training pairs read, at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=METHODS, help="dpr is what the others are compared with")
    parser.add_argument("--set", nargs="*", default=[], help="other settings, such as train.epochs=6")
    asked = parser.parse_args()
    if asked.data in READERS and asked.folder is None:
        parser.error(f"--data {asked.data} needs its folder")
    if "dpr" not in asked.methods:
        asked.methods = ["dpr", *asked.methods]
    return asked


if __name__ == "__main__":
    main()
