"""The sieve's pool and the regulariser of the model that sieves: average precision by query, with a test.

    noisyir bench noise --suite nfcorpus_hidden ... (benchmarks/claims.md has the command)
    python -m bench.sieve_pool               # the newest bench of the store

Two tests, over queries and seeds: the pool of the batch less the query's own, and beta .1 less 0.
"""

import argparse
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.lookup import find_build
from noisyir.base.artifact import PAIR_KEY
from noisyir.engine.meta import Ref
from noisyir.engine.runtime import default_home
from noisyir.engine.store import Store
from noisyir.engine.tables import semi_join
from noisyir.evaluation.negatives import query_average_precision
from noisyir.evaluation.significance import crossed_t_test, verdict

TESTS = (("batch_b_0", "own_b_0"), ("batch_b_.1", "batch_b_0"))


def precision_by_query(store: Store, key: str) -> dict[str, float]:
    """Average precision of the sieve's ranking, by query with relevant and irrelevant candidates."""
    meta = find_build(store, key)
    qrels, hidden, sieved = (
        store.builds.table(Ref(**ref))
        for ref in (meta.inputs["qrels"], meta.inputs["hidden"], meta.inputs["verdicts"]["sieve"])
    )
    relevant = pa.concat_tables(
        [qrels.filter(pc.greater_equal(qrels["relevance"], 1)).select(PAIR_KEY), hidden.select(PAIR_KEY)]
    )
    verdicts = sieved.sort_by("query_id")
    ids = verdicts["query_id"].to_numpy()
    names, query = np.unique(ids, return_inverse=True)
    is_relevant = semi_join(verdicts, relevant)
    counts, relevants = np.bincount(query), np.bincount(query, is_relevant)
    mixed = names[(relevants > 0) & (relevants < counts)]
    margin = verdicts["score"].to_numpy().astype(np.float64) - verdicts["bound"].to_numpy()
    return dict(zip(mixed, query_average_precision(margin, is_relevant, query), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="noise_table", help="key of the bench's table; default: the newest")
    asked = parser.parse_args()
    store = Store(default_home() / "store", home=default_home())
    arms: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for name, ref in find_build(store, asked.build).inputs["mining"].items():
        *_, arm, seed = name.split(":")
        arms[arm][seed] = precision_by_query(store, ref["key"])
    seeds = sorted(arms[TESTS[0][0]])
    shared = sorted(set.intersection(*(set(found) for of_seed in arms.values() for found in of_seed.values())))
    table = {arm: np.array([[found[s][query] for s in seeds] for query in shared]) for arm, found in arms.items()}
    for arm, values in table.items():
        print(f"{arm:<12} {values.mean():.4f}")
    for better, base in TESTS:
        mean, low, high, p_value = crossed_t_test(table[better] - table[base], np.arange(len(shared)).astype(str))
        said = verdict(low, high, p_value, seeds=len(seeds))
        print(
            f"{better} - {base}: {mean:+.4f} [{low:+.4f}, {high:+.4f}], p {p_value:.3g}, {len(shared)} queries: {said}"
        )


if __name__ == "__main__":
    main()
