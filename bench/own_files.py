"""README's path on own files: is the system that a run recommends as good as the best of all systems?

    python -m bench.own_files --data ../shared/data --files faq_500 faq_2000 --store own-store

Makes eight files of pairs (questions, code, FAQs, docstrings; 500 to 20,000 pairs; clean, with random wrong documents,
or wrong as people found them) and does with each what `noisyir init FILE && noisyir run FILE.yaml` does.  A tenth of
the queries is kept from every choice, as the split `promotion`: the weight of a hybrid, the epoch, the best system and
the verdict on a model are found by dev and by test.  Measured are the queries of this split that have a right pair.

`init` times the machine: on a busy one, a greater `--budget` has it choose as it would on an idle one.

Writes benchmarks/own_files.json, a row a file; files that are not named keep their rows.
"""

import argparse
import ast
import csv
import inspect
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.tables import read, record
from noisyir.app.init import advice_for, methods_of
from noisyir.app.own_data import experiment_for
from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.base.pages.cells import NONE
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.evaluation.recommendation import LEXICAL, START, STATIC, as_is, hybrid_of, model_of
from noisyir.evaluation.significance import crossed_t_test
from noisyir.methods.plans.experiment import Experiment
from noisyir.models.weights import MINILM
from noisyir.registry.evaluation import read_evaluation, read_recommendation

DRAWN, KEPT_APART = ("data.hold_out={dev: 0.2, test: 0.1}",), ("data.promotion_share=0.5", "train.patience=2")
Pairs = list[tuple[str, str, bool]]  # query, document, whether it is right


class OwnFile(NamedTuple):
    """A file: its pairs as found in the data, how many are taken, and the share that gets another's document."""

    rows: Callable[[Path], Iterator[tuple[str, str, bool]]]
    pairs: int
    wrong: float


def _squad(name: str) -> Callable[[Path], Iterator[tuple[str, str, bool]]]:
    def rows(data: Path) -> Iterator[tuple[str, str, bool]]:
        for article in json.loads((data / "squad" / name).read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield from ((asked["question"], paragraph["context"], True) for asked in paragraph["qas"])

    return rows


def _sql(data: Path) -> Iterator[tuple[str, str, bool]]:
    for line in (data / "staqc_sql" / "sql_annotated.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["title"], row["code"], row["label"] == 1


def _snippets(data: Path) -> Iterator[tuple[str, str, bool]]:
    for row in json.loads((data / "conala" / "conala-train.json").read_text(encoding="utf-8")):
        yield row["rewritten_intent"] or row["intent"], row["snippet"], True


def _commands(data: Path) -> Iterator[tuple[str, str, bool]]:
    sides = ((data / "nl2bash" / f"all.{name}").read_text(encoding="utf-8").splitlines() for name in ("nl", "cm"))
    yield from ((text, command, True) for text, command in zip(*sides, strict=True))


def _docstrings(data: Path) -> Iterator[tuple[str, str, bool]]:
    """Docstrings and functions of the standard library."""
    for path in sorted(Path(json.__file__).parents[1].rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            said = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and said and len(node.body) > 1 and len(said.split()) > 2:
                node.body = node.body[1:]
                yield re.sub(r"\s+", " ", inspect.cleandoc(said).split("\n\n")[0]), ast.unparse(node), True


FILES = {
    "faq_500": OwnFile(_squad("dev-v1.1.json"), 500, 0.0),
    "faq_2000": OwnFile(_squad("dev-v1.1.json"), 2_000, 0.2),
    "questions_6000": OwnFile(_squad("train-v1.1.json"), 6_000, 0.24),
    "questions_20000": OwnFile(_squad("train-v1.1.json"), 20_000, 0.0),
    "sql_people": OwnFile(_sql, 3_000, 0.0),
    "snippets_2300": OwnFile(_snippets, 2_300, 0.0),
    "commands_9000": OwnFile(_commands, 9_000, 0.0),
    "docstrings_4000": OwnFile(_docstrings, 4_000, 0.4),
}
HEADINGS = ["file", "pairs", "wrong", "queries", "BM25", "MiniLM", "with BM25", "static", "with BM25",
            "MiniLM trained", "with BM25", "weighted", "with BM25",
            "recommended", "nDCG@10", "best of all", "less the best of all"]  # fmt: skip


def pairs_of(file: OwnFile, data: Path) -> Pairs:
    """The file's pairs: the first document of each query, in random order, some with the document of another."""
    draw = random.Random(0)
    first: dict[str, tuple[str, bool]] = {}
    for query, document, right in file.rows(data):
        first.setdefault(query, (document, right))
    rows = [(query, *found) for query, found in first.items()]
    draw.shuffle(rows)
    rows = rows[: file.pairs]
    documents = [document for _, document, _ in rows]
    wrong = {*draw.sample(range(len(rows)), round(file.wrong * len(rows)))}
    return [(q, draw.choice(documents), False) if n in wrong else (q, d, ok) for n, (q, d, ok) in enumerate(rows)]


def run_file(name: str, pairs: Pairs, store: Store, budget: str) -> tuple[Experiment, Outcome]:
    """The run that `noisyir init` would write, with its draw of queries and a tenth of them kept from every choice."""
    path, execution = store.home / f"{name}.csv", Execution(store, Runtime(device="cpu"))
    _write(path, [("question", "answer"), *(row[:2] for row in pairs)])
    drawn = run_experiment(experiment_for(str(path), overrides=DRAWN), Choice(to="ingest"), execution)
    queries = store.builds.table(drawn.results["ingest"].meta.ref("queries"))
    split = dict(zip(queries["text"].to_pylist(), queries["split"].to_pylist(), strict=True))
    _write(path, [("question", "answer", "split"), *((*row[:2], split[row[0]]) for row in pairs if row[0] in split)])
    _, models, advice, _ = advice_for(str(path), store, budget=budget)
    methods = f"methods=[{', '.join(methods_of(models, advice))}]"
    assumed = [f"detect.assume={advice.assume}"] if advice.assume else []
    exp = experiment_for(str(path), overrides=[*KEPT_APART, *models.settings, methods, *assumed])
    return exp, run_experiment(exp, Choice(), execution)


def _write(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(rows)


def row_of(name: str, pairs: Pairs, store: Store, exp: Experiment, outcome: Outcome) -> list[str]:
    """The table's row: means over the queries kept apart whose pair is right."""
    found = read_recommendation(store, exp, outcome.kept)
    assert found is not None
    right = {query for query, _, ok in pairs if ok}
    asked = store.builds.table(outcome.results["ingest"].meta.ref("queries"))
    ids = asked.filter(pc.is_in(asked["text"], pa.array(sorted(right), pa.string())))["query_id"]
    student, scored = exp.model.backbone, read_evaluation(store, outcome.kept["comparison"]).scored
    tables = {_named(system, student): _apart(store.builds.table(ref), ids) for system, ref in scored.items()}
    values = {system: table["value"].to_numpy() for system, table in tables.items()}
    means = {system: float(found.mean()) for system, found in values.items()}
    best = max(means, key=means.__getitem__)
    chosen = _named(found.best, student)
    groups = np.unique(tables[LEXICAL]["group"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    gain = crossed_t_test((values[chosen] - values[best])[:, None], groups)
    wrong = sum(not ok for *_, ok in pairs) / len(pairs)
    models = (as_is(MINILM), STATIC, "transformer", "reweight")
    columns = [LEXICAL, *(form for model in models for form in (model, hybrid_of(model)))]
    return [
        name, f"{len(pairs):,}", f"{wrong:.0%}", f"{len(groups):,}",
        *(f"{means[system]:.3f}" if system in means else NONE for system in columns),
        chosen, f"{means[chosen]:.3f}", best, f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]",
    ]  # fmt: skip


def _named(system: str, student: str) -> str:
    """A system by its model: plain training's has the student's name, and the untrained transformer is MiniLM."""
    if (student, model_of(system)) == ("transformer", START):
        return system.replace(START, as_is(MINILM))
    return system.replace("dpr", student) if model_of(system) == "dpr" else system


def _apart(metrics: pa.Table, ids: pa.ChunkedArray) -> pa.Table:
    mine = pc.and_(pc.equal(metrics["measure"], "nDCG@10"), pc.equal(metrics["split"], "promotion"))
    return metrics.filter(pc.and_(mine, pc.is_in(metrics["query_id"], ids))).sort_by("query_id")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the files that are named, and record each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--files", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--store", type=Path, default=Path(".noisyir"), help="where runs are kept")
    parser.add_argument("--budget", default="10m", help="the time that `init` may take, by its own timing")
    given = parser.parse_args(arguments)
    given.store.mkdir(parents=True, exist_ok=True)
    store = Store(given.store / "store", home=given.store)
    for name in given.files:
        pairs = pairs_of(FILES[name], given.data)
        row = row_of(name, pairs, store, *run_file(name, pairs, store, given.budget))
        try:
            rows = {one[0]: one for one in read("own_files")["table"][1:]}
        except FileNotFoundError:
            rows = {}
        rows[name] = row
        table = [HEADINGS, *(rows[known] for known in FILES if known in rows)]
        missing = [known for known in FILES if known not in rows]
        record("own_files", table, left=1, claim="The system that a run recommends and the best of all, on queries "
               "kept from every choice.", not_run=missing, seeds=[42])  # fmt: skip
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
