"""Long documents: are they found better if they are cut into passages before a model reads them?

    python -m bench.long_documents --data ../shared/data --store long-store

A document is a run of paragraphs of one article of SQuAD's dev set, and 3,000 of its questions are drawn.  Each file is
run whole and cut, with the same test queries.  In the last file all questions are about a document's first paragraph,
which models read even if nothing is cut.

Writes benchmarks/long_documents.json: nDCG@10 of a document's best passage, and the gain by cutting with its interval,
by queries and by seeds of training.  Models as they are have no seed.
"""

import argparse
import csv
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.tables import record
from noisyir.app.affordable import CHUNK
from noisyir.app.own_data import experiment_for
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.evaluation.recommendation import LEXICAL, as_is, hybrid_of
from noisyir.evaluation.significance import crossed_t_test
from noisyir.models.backends import quickest
from noisyir.models.weights import MINILM
from noisyir.registry.evaluation import read_evaluation

QUESTIONS, SEEDS = 3_000, (0, 1, 2, 3, 4)
SETTINGS = ("data.hold_out={test: 0.3, dev: 0.2}", "model.backbone=static", "methods=[dpr]")
CUT = tuple(f"chunk.{name}={value}" for name, value in CHUNK.items())
SYSTEMS = {"BM25": LEXICAL, "MiniLM": as_is(MINILM), "MiniLM with BM25": hybrid_of(as_is(MINILM)),
           "static, trained": "dpr", "static with BM25": hybrid_of("dpr")}  # fmt: skip
HEADINGS = ["documents", "words", "queries", "system", "whole", "cut", "gain by cutting"]


class LongDocuments(NamedTuple):
    """Documents of so many paragraphs; `at_start`: their questions are about the first one."""

    paragraphs: int
    at_start: bool = False


FILES = {
    "two paragraphs": LongDocuments(2),
    "four paragraphs": LongDocuments(4),
    "eight paragraphs": LongDocuments(8),
    "four, asked about the first": LongDocuments(4, at_start=True),
}


def rows_of(file: LongDocuments, data: Path) -> list[tuple[str, str]]:
    """Questions with the document of their paragraph, each question once."""
    articles = json.loads((data / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    found = {question: document for article in articles for question, document in _of_article(article, file)}
    rows = sorted(found.items())
    random.Random(0).shuffle(rows)
    return rows[:QUESTIONS]


def _of_article(article: dict[str, list[dict[str, object]]], file: LongDocuments) -> Iterator[tuple[str, str]]:
    paragraphs = article["paragraphs"]
    for start in range(0, len(paragraphs), file.paragraphs):
        run = paragraphs[start : start + file.paragraphs]
        document = "\n\n".join(str(paragraph["context"]) for paragraph in run)
        for paragraph in run[:1] if file.at_start else run:
            yield from ((asked["question"], document) for asked in paragraph["qas"])  # type: ignore[attr-defined]


def values_of(path: Path, settings: Sequence[str], store: Store) -> dict[str, pa.Table]:
    """The test queries' nDCG@10 by system, in the order of query ids."""
    exp = experiment_for(str(path), overrides=[*SETTINGS, *settings])
    outcome = run_experiment(exp, Choice(), Execution(store, Runtime(device="cpu")))
    scored = read_evaluation(store, outcome.kept["comparison"]).scored
    return {name: _of_test(store.builds.table(scored[system])) for name, system in SYSTEMS.items() if system in scored}


def _of_test(metrics: pa.Table) -> pa.Table:
    mine = pc.and_(pc.equal(metrics["measure"], "nDCG@10"), pc.equal(metrics["split"], "test"))
    return metrics.filter(pc.and_(mine, pc.is_valid(metrics["query_id"]))).sort_by("query_id")


def table_rows(name: str, path: Path, rows: Sequence[tuple[str, str]], store: Store) -> Iterator[list[str]]:
    """A row for each system: its means whole and cut, and the gain.  Models as they are run with the first seed."""
    backend, precision = quickest("CPU")  # as init writes it
    models = f"as_is={{{MINILM}: {{backend: {backend}, precision: {precision}}}}}"
    whole, cut = ([values_of(path, [*chunk, f"seed={seed}", "as_is={}" if seed else models], store) for seed in SEEDS]
                  for chunk in ((), CUT))  # fmt: skip
    words = round(np.mean([len(document.split()) for document in {document for _, document in rows}]))
    for system in SYSTEMS:
        trained = "static" in system
        values = [np.stack([_column(run[system]) for run in (runs if trained else runs[:1])], axis=1)
                  for runs in (whole, cut)]  # fmt: skip
        queries = whole[0][system]
        gain = crossed_t_test(values[1] - values[0], queries["group"].to_numpy(zero_copy_only=False))
        yield [name, f"{words:,}", f"{len(queries):,}", system, *(f"{each.mean():.3f}" for each in values),
               f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"]  # fmt: skip


def _column(metrics: pa.Table) -> np.ndarray:
    return np.asarray(metrics["value"].to_numpy())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the files, whole and cut, and record them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--store", type=Path, default=Path(".noisyir"), help="where runs are kept")
    given = parser.parse_args(arguments)
    given.store.mkdir(parents=True, exist_ok=True)
    store, table = Store(given.store / "store", home=given.store), [HEADINGS]
    for name, file in FILES.items():
        rows, path = rows_of(file, given.data), given.store / f"{name.replace(' ', '_').replace(',', '')}.csv"
        with path.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("question", "answer"), *rows])
        for row in table_rows(name, path, rows, store):
            table.append(row)
            print(" | ".join(row), flush=True)
    claim = "Long documents whole and cut into passages: nDCG@10 of their best passage, and the gain by cutting."
    record("long_documents", table, left=1, claim=claim, seeds=list(SEEDS))


if __name__ == "__main__":
    main()
