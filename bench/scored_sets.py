"""Pairs of which the truth is known, scored without it by the default detector: benches of judging draw on them.

    python -m bench.scored_sets --data ../shared/data --home scored           # score all sets, once

StaQC and nl2bash (verdicts on commands) hold wrong pairs as people found them.  CoNaLa and Natural Questions hold none;
both are there as they are and with 30 % neighbours put in.  SQuAD has 30 % wrong in each of ten ways.
"""

import argparse
import csv
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.rate_matrix import slice_of
from bench.remembered import remember_texts
from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.corruption.kinds import Corruption
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.engine.tables import aligned, matrix, pair_ids
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.registry import open_tracker

RATE, MOST = 0.3, 2000
_PAIR = ["query_id", "doc_id"]
Row = tuple[str, str, str, str, bool]  # query_id, doc_id, query, document, whether the pair is wrong


class ScoredPairs(NamedTuple):
    """Pairs, their label-free scores and features, and the truth, which no detector has read.

    ids: (query_id, doc_id).  better: the document found instead, empty where there is none.  is_better_right: whether
    that one is known to be right; of a pair that people judged, only where they judged it, too.
    """

    ids: np.ndarray
    scores: np.ndarray
    features: np.ndarray
    is_wrong: np.ndarray
    better: np.ndarray
    is_better_right: np.ndarray

    @property
    def query(self) -> np.ndarray:
        """Of each pair, as a number."""
        return np.unique(self.ids[:, 0], return_inverse=True)[1]


def _staqc(data: Path) -> Iterator[Row]:
    for row in map(json.loads, (data / "staqc_sql/sql_annotated.jsonl").read_text(encoding="utf-8").splitlines()):
        yield str(row["qid"]), str(row["id"]), row["title"], row["code"], row["label"] == 0


def _nl2bash(data: Path) -> Iterator[Row]:
    seen: dict[tuple[str, str], bool] = {}
    for path in sorted((data / "nl2bash").glob("manual.evaluations.*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                seen.setdefault((row["description"], row["prediction"]), row["correct command"].strip() != "y")
    yield from _numbered((query, document, wrong) for (query, document), wrong in seen.items())


def _conala(data: Path) -> Iterator[Row]:
    rows = json.loads((data / "conala/conala-train.json").read_text(encoding="utf-8"))
    yield from _numbered((row["rewritten_intent"] or row["intent"], row["snippet"], False) for row in rows)


def _nq(data: Path) -> Iterator[Row]:
    with (data / "qed_nq_train/nq_pairs_train.jsonl").open(encoding="utf-8") as lines:
        yield from _numbered((row["question"], row["passage"], False) for row in map(json.loads, islice(lines, MOST)))


def _numbered(rows: Iterator[tuple[str, str, bool]]) -> Iterator[Row]:
    """Each pair once; equal texts have one id."""
    queries, documents, seen = dict[str, str](), dict[str, str](), set[tuple[str, str]]()
    for query, document, wrong in rows:
        pair = queries.setdefault(query, f"q{len(queries)}"), documents.setdefault(document, f"d{len(documents)}")
        if pair not in seen and query.strip() and document.strip():
            seen.add(pair)
            yield *pair, query, document, wrong


_FILES: dict[str, Callable[[Path], Iterator[Row]]] = {
    "staqc": _staqc, "nl2bash": _nl2bash, "conala": _conala, "nq": _nq,
}  # fmt: skip
SETS = [*_FILES, "conala:neighbour", "nq:neighbour", *(f"squad:{kind}" for kind in sorted(Corruption.variants()))]


def scored(name: str, data: Path, home: Path) -> ScoredPairs:
    """The set, from the folder where it was scored once."""
    path = home / f"{name.replace(':', '-')}.npz"
    if not path.exists():
        np.savez_compressed(path, **_score(name, data, home)._asdict())
    with np.load(path) as found:
        return ScoredPairs(**found)


def _score(name: str, data: Path, home: Path) -> ScoredPairs:
    store = Store(home / "store", home=home)
    outcome = audited(name, data, home, {"detectors": {"ensemble": {"kind": "ensemble"}}})
    flags, wrong = detected(name, data, outcome, store)
    ids, truth = list(pair_ids(flags)), _truth(name, data)
    features = matrix(aligned(flags, _table("pair_features", outcome, store), _PAIR)["features"])
    right = {pair for pair, is_wrong in truth.items() if not is_wrong}
    if ":" in name:
        right = set(pair_ids(_table("pairs", outcome, store)))  # as they came
    better = [other or "" for other in flags["replacement"].to_pylist()]
    known = [(query, other) in right for (query, _), other in zip(ids, better, strict=True)]
    scores = flags["score"].to_numpy().astype(np.float64)
    return ScoredPairs(np.array(ids), scores, features, wrong, np.array(better), np.array(known))


def audited(name: str, data: Path, home: Path, settings: dict[str, Any]) -> Outcome:
    """The set's audit, without labels, up to `detect`."""
    of, _, kind = name.partition(":")
    given = {"name": "scored", "data": _source(of, data, home), **settings}
    given |= {"noise": {"kind": kind, "rate": RATE}} if kind else {}
    exp, store = experiments.from_settings(given, []), Store(home / "store", home=home)
    tracker = open_tracker(experiment=exp, home=home, enabled=False)
    execution = Execution(store=store, runtime=Runtime(threads=1), tracker=tracker)
    return run_experiment(exp, Choice(to="detect"), execution, pipeline=audit_pairs)


def detected(name: str, data: Path, outcome: Outcome, store: Store) -> tuple[pa.Table, np.ndarray]:
    """The audit's flags, and of each pair whether it is wrong."""
    flags, truth = _table("noise_flags", outcome, store), _truth(name, data)
    wrong = np.array([truth.get(pair, False) for pair in pair_ids(flags)])
    if ":" in name:
        noise = aligned(flags, _table("noise_truth", outcome, store), _PAIR)["is_noisy"]
        wrong = wrong | noise.to_numpy(zero_copy_only=False).astype(bool)
    return flags, wrong


def _truth(name: str, data: Path) -> dict[tuple[str, ...], bool]:
    of = name.partition(":")[0]
    return {} if of == "squad" else {row[:2]: row[4] for row in _FILES[of](data)}


def _table(artifact: str, outcome: Outcome, store: Store) -> pa.Table:
    metas = (result.meta for result in outcome.results.values())
    return store.builds.table(next(meta.ref(artifact) for meta in metas if artifact in meta.artifacts))


def _source(of: str, data: Path, home: Path) -> dict[str, Any]:
    """The experiment's `data`, without the truth."""
    if of == "squad":
        return {"kind": "squad", "path": str(slice_of(data / "squad", MOST, home / "squad"))}
    path, names = home / f"{of}.jsonl", (*_PAIR, "query", "document")
    rows = (dict(zip(names, row[:4], strict=True)) for row in _FILES[of](data))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"kind": "pairs", "path": str(path), "columns": {name: name for name in names} | {"split": None}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".scored"), help="where the scores are kept")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    given = parser.parse_args()
    given.home.mkdir(parents=True, exist_ok=True)
    remember_texts()
    for name in given.sets:
        pairs = scored(name, given.data, given.home)
        print(f"{name}: {len(pairs.ids):,} pairs, {pairs.is_wrong.mean():.1%} wrong", flush=True)


if __name__ == "__main__":
    main()
