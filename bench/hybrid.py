"""BM25, vectors and both together on sets of this field: the weight from dev queries, intervals over queries.

    python -m bench.hybrid --data ../shared/data --sets nfcorpus staqc --store own-store

Each set is run as it stands with plain training of a static model (`dpr`), and its runs are fused by a convex sum and
by reciprocal ranks.  A set that has test queries alone is cut into thirds: to train, to choose the weight, to test.
Writes benchmarks/hybrid.json; sets that are not named keep their rows.
"""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.tables import read, record
from noisyir.app.comparing import contestant
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.evaluation.significance import crossed_t_test
from noisyir.methods.experiments import from_settings

_STATIC = {"epochs": 6, "batch_size": 256, "learning_rate": 3e-3, "patience": 2}
MODELS = {"zero_shot": "untrained", "dpr": "trained"}
HEADINGS = ["set", "queries", "vectors", "BM25", "vectors alone", "sum", "weight", "sum less the better", "by ranks",
            "by ranks less sum"]  # fmt: skip


def settings_of(name: str, data: Path, home: Path) -> dict[str, Any]:
    """The experiment of a set, but for how its runs are fused."""
    folder = data / "beir" / name
    if name in TESTED_ALONE:
        folder = in_thirds(folder, home / name)
    beir = {"kind": "beir", "path": str(folder), "on_empty": "exclude"}
    questions = {"kind": "squad", "path": str(data / "squad"), "hold_out": {"dev": 0.02, "test": 0.02}}
    sql = {"kind": "staqc", "path": str(data / "staqc_sql" / "sql_annotated.jsonl")}
    large = {**_STATIC, "batch_size": 512}
    given: dict[str, dict[str, Any]] = {
        "squad": {"data": questions, "train": large},
        "staqc": {"data": sql},
        "pydocs": {"data": {"kind": "pydocs"}, "train": large},
        "nfcorpus": {"data": beir},
    }
    return {"name": f"hybrid_{name}", "methods": ["dpr"], "train": _STATIC, "data": beir, **given.get(name, {})}


def in_thirds(folder: Path, into: Path) -> Path:
    """The set with each third of its test queries in another split."""
    (into / "qrels").mkdir(parents=True, exist_ok=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        shutil.copy(folder / name, into / name)
    heading, *lines = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    asked = sorted({line.partition("\t")[0] for line in lines})
    for number, split in enumerate(("train", "dev", "test")):
        mine = set(asked[number::3])
        kept = (line for line in lines if line.partition("\t")[0] in mine)
        (into / "qrels" / f"{split}.tsv").write_text("".join([heading, *kept]), encoding="utf-8")
    return into


TESTED_ALONE = ("cisi", "cran", "med", "vaswani")
SETS = ("squad", "nfcorpus", "staqc", "pydocs", *TESTED_ALONE)


def rows_of(name: str, store: Store, data: Path) -> Iterator[list[str]]:
    """A row for each model of a set: both fusions, beside what they are made of."""
    found: dict[str, dict[str, pa.Table]] = {}
    for by in ("ranks", "sum"):
        exp = from_settings({**settings_of(name, data, store.home), "hybrid": {"by": by}}, [])
        outcome = run_experiment(exp, Choice(), Execution(store, Runtime(device="cpu")))
        systems = ("bm25", *MODELS, *(f"{model}_hybrid" for model in MODELS))
        sides = {one: contestant(store, f"{exp.name}:{one}") for one in systems}
        found[by] = {one: _test(store.builds.table(side.scored[exp.seed])) for one, side in sides.items()}
    for model, said in MODELS.items():
        (fusion,) = store.builds.table(outcome.results[f"fuse@{model}"].meta.ref("fusion")).to_pylist()
        tables = {"bm25": found["sum"]["bm25"], "alone": found["sum"][model]}
        tables |= {by: found[by][f"{model}_hybrid"] for by in ("sum", "ranks")}
        value = {one: table["value"].to_numpy() for one, table in tables.items()}
        better = max(("bm25", "alone"), key=lambda one: float(value[one].mean()))
        groups = tables["bm25"]["group"].combine_chunks().dictionary_encode().indices.to_numpy()
        gains = [crossed_t_test((value[a] - value[b])[:, None], groups) for a, b in (("sum", better), ("ranks", "sum"))]
        told = [f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]" for gain in gains]
        ends = "" if fusion["low"] is None else f"[{fusion['low']:.2f}, {fusion['high']:.2f}]"
        mean = {one: f"{values.mean():.3f}" for one, values in value.items()}
        weight = f"{fusion['weight']:.2f} {ends}".strip()
        beside = [mean["bm25"], mean["alone"], mean["sum"], weight, told[0], mean["ranks"], told[1]]
        yield [name, f"{len(groups):,}", said, *beside]


def _test(metrics: pa.Table) -> pa.Table:
    mine = pc.and_(pc.equal(metrics["measure"], "nDCG@10"), pc.equal(metrics["split"], "test"))
    return metrics.filter(pc.and_(mine, pc.is_valid(metrics["query_id"]))).sort_by("query_id")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sets that are named, and record each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--store", type=Path, default=Path(".noisyir"), help="where runs are kept")
    given = parser.parse_args(arguments)
    given.store.mkdir(parents=True, exist_ok=True)
    store = Store(given.store / "store", home=given.store)
    for name in given.sets:
        made = list(rows_of(name, store, given.data))
        try:
            rows = [row for row in read("hybrid")["table"][1:] if row[0] != name]
        except FileNotFoundError:
            rows = []
        rows = sorted([*rows, *made], key=lambda row: SETS.index(row[0]))
        missing = [one for one in SETS if one not in {row[0] for row in rows}]
        record("hybrid", [HEADINGS, *rows], left=3, claim="BM25 and vectors together, beside either alone, nDCG@10 of "
               "test queries; the weight is chosen by dev queries.", not_run=missing, seeds=[42])  # fmt: skip
        for row in made:
            print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
