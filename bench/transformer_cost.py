"""Cheaper ways to train a transformer and their cost in nDCG@10, on sets of the protocol, with several seeds.

    python -m bench.labelled_sets ../shared/data cost-sets
    python -m bench.transformer_cost --sets cost-sets/squad cost-sets/conala --store cost-store

Each way trains the packaged MiniLM on the same pairs with the same batch and epochs, and ranks the same test queries.
A difference counts queries and seeds.  `python -m bench.speed --rows transformer_upper` has the speeds.  Each training
stays in the store, so an interrupted bench goes on.  Writes benchmarks/transformer_cost.json.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    "top three on kept states": {"train.freeze": 3, "train.keep_states": True},
    "top two on kept states": {"train.freeze": 4, "train.keep_states": True},
    "top two at the rate of all layers": {"train.freeze": 4, "train.keep_states": True, "train.learning_rate": 2e-5},
    "all layers at the rate of the top two": {"train.learning_rate": 1e-4},
    "all layers in bf16": {"train.precision": "bf16"},
    "top two on kept states in bf16": {"train.freeze": 4, "train.keep_states": True, "train.precision": "bf16"},
    "embeddings frozen": {"train.freeze": 0},
    "adapters of rank 8": {"train.lora.rank": 8},
    "the first 3 layers alone": {"model.layers": 3},
    "the first 2 layers alone": {"model.layers": 2},
}


def values_of(way: dict[str, Any], seed: int, data: Path, epochs: int, store: Store) -> pa.Table:
    """nDCG@10 of each test query, by its id, of one training."""
    settings: dict[str, Any] = {
        "data.kind": "beir", "data.path": str(data), "noise": None, "methods": ["dpr"],
        "model.backbone": "transformer", "train.epochs": epochs, "train.batch_size": 64, "train.dev_queries": 0,
        "bm25_index.engine": "bm25s", "score.splits": ["test"], "score.measures": ["nDCG@10"], "seed": seed, **way,
    }  # fmt: skip
    given = [f"{name}={'null' if value is None else value}" for name, value in settings.items()]
    exp = experiments.from_settings({"name": "transformer_cost"}, given)
    outcome = run_experiment(exp, Choice(), Execution(store, Runtime(device="cpu")))
    metrics = store.builds.table(read_evaluation(store, outcome.kept["comparison"]).scored["dpr"])
    asked = pc.and_(pc.equal(metrics["measure"], "nDCG@10"), pc.is_valid(metrics["query_id"]))
    return metrics.filter(asked).sort_by("query_id")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on each set by each way under each seed, and record the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, nargs="+", required=True, help="folders of bench.labelled_sets")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="besides all layers")
    parser.add_argument("--store", type=Path, default=Path(".noisyir"), help="where runs are kept")
    given = parser.parse_args(arguments)
    given.store.mkdir(parents=True, exist_ok=True)
    store = Store(given.store / "store", home=given.store)
    rows = [["set", "queries", "way", "nDCG@10", "less all layers"]]
    for data in given.sets:
        found = {
            name: [values_of(way, seed, data, given.epochs, store) for seed in given.seeds]
            for name, way in WAYS.items()
            if name in (WHOLE, *given.ways)
        }
        groups = np.unique(found[WHOLE][0]["group"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
        arms = {name: np.stack([one["value"].to_numpy() for one in tables], axis=1) for name, tables in found.items()}
        for name, values in arms.items():
            lost = crossed_t_test(values - arms[WHOLE], groups)
            less = "" if name == WHOLE else f"{lost.mean:+.4f} [{lost.low:+.4f}, {lost.high:+.4f}]"
            rows.append([data.name, f"{len(groups):,}", name, f"{values.mean():.4f}", less])
            print(" | ".join(rows[-1]), flush=True)
    record("transformer_cost", rows, left=3, claim="Cheaper trainings of MiniLM, on sets of the protocol.",
           seeds=given.seeds, epochs=given.epochs)  # fmt: skip


if __name__ == "__main__":
    main()
