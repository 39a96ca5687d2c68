"""Cheaper ways to train a transformer and their cost in nDCG@10: a slice of SQuAD, several seeds.

    python -m bench.transformer_cost --data ../shared/data/squad --store cost-store --seeds 0 1 2

Each way trains the packaged MiniLM on the same pairs with the same batch and epochs, and ranks the same dev questions.
A difference counts queries (those of a paragraph as one draw) and seeds.  `python -m bench.speed --rows
transformer_recipe` has the speeds.  Writes benchmarks/transformer_cost.json.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.speed.rows.transformer_recipe import BUCKETS, FROZEN
from bench.tables import record
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.evaluation.significance import crossed_t_test
from noisyir.methods import experiments
from noisyir.registry.evaluation import read_evaluation

WHOLE = "all layers"
WAYS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    f"{FROZEN} layers and the embeddings frozen": {"train.freeze": FROZEN},
    "embeddings frozen": {"train.freeze": 0},
    f"frozen, {BUCKETS} length buckets": {"train.freeze": FROZEN, "train.length_buckets": BUCKETS},
    "adapters of rank 8": {"train.lora.rank": 8},
    "the first 3 layers alone": {"model.layers": 3},
    "the first 2 layers alone": {"model.layers": 2},
}


def values_of(way: dict[str, Any], seed: int, data: Path, share: float, store: Store) -> pa.Table:
    """nDCG@10 of each dev question, by its id, of one training."""
    settings: dict[str, Any] = {
        "data.kind": "squad", "data.path": str(data), "data.document_share": share, "noise": None, "methods": ["dpr"],
        "model.backbone": "transformer", "train.epochs": 1, "train.batch_size": 64, "train.dev_queries": 0,
        "bm25_index.engine": "bm25s", "score.splits": ["dev"], "score.measures": ["nDCG@10"], "seed": seed, **way,
    }  # fmt: skip
    given = [f"{name}={'null' if value is None else value}" for name, value in settings.items()]
    exp = experiments.from_settings({"name": "transformer_cost"}, given)
    outcome = run_experiment(exp, Choice(), Execution(store, Runtime(device="cpu")))
    metrics = store.builds.table(read_evaluation(store, outcome.kept["comparison"]).scored["dpr"])
    asked = pc.and_(pc.equal(metrics["measure"], "nDCG@10"), pc.is_valid(metrics["query_id"]))
    return metrics.filter(asked).sort_by("query_id")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train by each way under each seed, and record the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/squad"), help="the folder of SQuAD")
    parser.add_argument("--share", type=float, default=0.05, help="share of the paragraphs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="besides all layers")
    parser.add_argument("--store", type=Path, default=Path(".noisyir"), help="where runs are kept")
    given = parser.parse_args(arguments)
    given.store.mkdir(parents=True, exist_ok=True)
    store = Store(given.store / "store", home=given.store)
    found = {
        name: [values_of(way, seed, given.data, given.share, store) for seed in given.seeds]
        for name, way in WAYS.items()
        if name in (WHOLE, *given.ways)
    }
    arms = {name: np.stack([one["value"].to_numpy() for one in tables], axis=1) for name, tables in found.items()}
    groups = np.unique(found[WHOLE][0]["group"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    rows = [["way", "nDCG@10", "less all layers"]]
    for name, values in arms.items():
        lost = crossed_t_test(values - arms[WHOLE], groups)
        rows.append([name, f"{values.mean():.4f}", f"{lost.mean:+.4f} [{lost.low:+.4f}, {lost.high:+.4f}]"])
    print("\n".join(" | ".join(row) for row in rows))
    record("transformer_cost", rows, left=1, claim="Cheaper trainings of MiniLM on a slice of SQuAD.",
           seeds=given.seeds, queries=len(groups), share=given.share)  # fmt: skip


if __name__ == "__main__":
    main()
