"""Training on pairs that judgements weighed, next to training on the pairs as they are: does cleaning hurt?

    python -m bench.cleaned_training --data ../shared/data --home .scored     # writes benchmarks/cleaned_training.json

StaQC and nl2bash, with tests that people call right (bench.labelled_sets).  A session judges so many random training
pairs; `decide` of `noisyir audit --judgements --apply` gives every pair its weight, and a static model is trained on
all of them.  Each session has a seed of its own for the sample and for the training.  Differences in nDCG@10 are from
plain training under the same seed, tested over queries and sessions.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from bench.cleaning import fates
from bench.labelled_sets import READERS, SETS, Labelled
from bench.real_noise_training import MEASURE, SMALL
from bench.scored_sets import ScoredPairs, scored
from bench.tables import record
from noisyir.app.runs import Execution, run_experiment
from noisyir.audits.pairs_to_clean import Fate
from noisyir.detection.judgements import Pair
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.evaluation.significance import crossed_t_test
from noisyir.methods.experiments import from_settings
from noisyir.registry.evaluation import read_evaluation

Texts = tuple[str, str]  # of a query and a document
HEADINGS = ["set", "judged", "weight of wrong pairs", "of right ones", MEASURE, "plain", "less plain, 95 %"]


def main() -> None:
    given = _arguments()
    given.home.mkdir(parents=True, exist_ok=True)
    store, rows = Store(given.home / "store", home=given.home), [HEADINGS]
    for name in given.sets:
        labelled = READERS[name](given.data / SETS[name][1], None)
        pairs = _of_training(scored(name, given.data, given.home), labelled, given.home / f"{name}.jsonl")
        seeds = range(given.seeds)
        plain = [values(_file(labelled, {}, given.home / f"{name}_plain.jsonl"), seed, store) for seed in seeds]
        for judged in given.judged:
            met = [fates(pairs, judged, seed)[1] for seed in seeds]
            files = [
                _file(labelled, _by_text(met[seed], given.home / f"{name}.jsonl"),
                      given.home / f"{name}_{judged}_{seed}.jsonl")
                for seed in seeds
            ]  # fmt: skip
            found = [values(file, seed, store) for seed, file in enumerate(files)]
            rows.append([name, str(judged), *_weights(pairs, met), *_compared(found, plain)])
            print(" | ".join(rows[-1]), flush=True)
    claim = "Training on pairs that judgements weighed is nowhere more than .003 below plain training."
    record("cleaned_training", rows, left=1, claim=claim, seeds=given.seeds)


def values(file: Path, seed: int, store: Store) -> np.ndarray:
    """The measure of each test query, in their order, of one training on a file of pairs."""
    columns = {name: name for name in ("query_id", "doc_id", "query", "document", "split", "weight")}
    settings: dict[str, Any] = {
        "name": "cleaned", "data": {"kind": "pairs", "path": str(file), "columns": columns, "on_empty": "exclude"},
        "methods": ["dpr"], "train": SMALL, "encode": {"splits": ["test"]},
        "score": {"splits": ["test"], "measures": [MEASURE]},
        "bm25_index": {"engine": "bm25s"}, "hybrid": None, "seed": seed,
    }  # fmt: skip
    execution = Execution(store=store, runtime=Runtime(threads=1, device="cpu"), observer=Observer())
    outcome = run_experiment(from_settings(settings, []), Choice(), execution)
    metrics = store.builds.table(read_evaluation(store, outcome.kept["comparison"]).scored["dpr"])
    asked = metrics.filter(pc.and_(pc.equal(metrics["measure"], MEASURE), pc.is_valid(metrics["query_id"])))
    found: np.ndarray = asked.sort_by("query_id")["value"].to_numpy()
    return found


def _of_training(pairs: ScoredPairs, labelled: Labelled, file: Path) -> ScoredPairs:
    """The pairs that are trained on; tests are not judged."""
    train = {(labelled.queries[query], labelled.documents[document]) for query, document in labelled.train}
    texts = _texts(file)
    kept = [texts[query, document] in train for query, document in pairs.ids.tolist()]
    return ScoredPairs(*(column[kept] for column in pairs))


def _texts(file: Path) -> dict[Pair, Texts]:
    """The texts of each pair that was scored."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {(row["query_id"], row["doc_id"]): (row["query"], row["document"]) for row in rows}


def _by_text(met: dict[Pair, Fate], file: Path) -> dict[Texts, float]:
    """The weight of each pair; none is relabelled without people (bench.cleaning), and theirs are left to its table."""
    texts = _texts(file)
    return {texts[pair]: fate.weight if fate.action != "relabel" else 0.0 for pair, fate in met.items()}


def _file(labelled: Labelled, weights: dict[Texts, float], file: Path) -> Path:
    """All pairs, each of training with its weight."""
    lines = []
    for split, pairs in (("train", labelled.train), ("test", labelled.test)):
        for query, document in pairs:
            texts = labelled.queries[query], labelled.documents[document]
            row = {"query_id": query, "doc_id": document, "query": texts[0], "document": texts[1], "split": split}
            lines.append(json.dumps({**row, "weight": weights.get(texts, 1.0)}) + "\n")
    file.write_text("".join(lines), encoding="utf-8")
    return file


def _weights(pairs: ScoredPairs, met: list[dict[Pair, Fate]]) -> list[str]:
    """The mean weight of pairs that people call wrong, and of those that they call right."""
    given = np.array([[one[query, document].weight for query, document in pairs.ids.tolist()] for one in met])
    return [f"{given[:, side].mean():.2f}" for side in (pairs.is_wrong, ~pairs.is_wrong)]


def _compared(found: list[np.ndarray], plain: list[np.ndarray]) -> list[str]:
    test = crossed_t_test((np.array(found) - np.array(plain)).T)
    means = [f"{np.mean(values):.4f}" for values in (found, plain)]
    return [*means, f"{test.mean:+.4f} [{test.low:+.4f}, {test.high:+.4f}]"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".scored"), help="where bench.scored_sets keeps the scores")
    parser.add_argument("--sets", nargs="+", choices=("staqc", "nl2bash"), default=["staqc", "nl2bash"])
    parser.add_argument("--judged", type=int, nargs="+", default=[30, 100, 200])
    parser.add_argument("--seeds", type=int, default=10, help="sessions of each")
    return parser.parse_args()


if __name__ == "__main__":
    main()
